"""What each published model needs to cache: one formula per model type, in the words of its own config.

Written from the published configs and from the configuration and modeling classes of Transformers 5.17 (or the
publisher's own code; `references` in data/architectures/TYPE.yaml names the file), never from the planner's code: it is
the other witness.

A formula takes the text decoder's config and the model's dtype width and returns one layer after the other. A layer is a
letter of docs/pattern.md and its terms:
    ("grow", n)         n elements of the KV type for every token
    ("window", w, n)    n elements of the KV type for each of the last w tokens, the current one included
    ("per", r, n)       n elements of the KV type for every r whole tokens
    ("fixed", b)        b bytes
"""


class Unknown(Exception):
    """The table holds no formula for this model type."""


class Layer:
    def __init__(self, letter, *terms):
        self.letter, self.terms = letter, terms

    def bytes(self, c, kv=2):
        total = 0
        for term in self.terms:
            kind = term[0]
            if kind == "grow":
                total += c * term[1] * kv
            elif kind == "window":
                total += min(c, term[1]) * term[2] * kv
            elif kind == "per":
                total += c // term[1] * term[2] * kv
            else:
                total += term[1]
        return total

    def words(self):
        names = {"grow": "c x {0}", "window": "min(c, {0}) x {1}", "per": "floor(c / {0}) x {1}", "fixed": "{0} B"}
        return " + ".join(names[t[0]].format(*t[1:]) for t in self.terms) or "nothing"


def words(layers):
    """The terms of a model, equal layers together: `10 F: c x 4096`."""
    kinds = {}
    for layer in layers:
        key = (layer.letter, layer.words())
        kinds[key] = kinds.get(key, 0) + 1
    return "; ".join("%d %s: %s" % (n, letter, text) for (letter, text), n in kinds.items())


def need(layers, c, kv=2, sequences=1):
    return sequences * sum(layer.bytes(c, kv) for layer in layers)


def states(layers):
    return sum(term[1] for layer in layers for term in layer.terms if term[0] == "fixed")


def unshared(config):
    """The same model, were no layer to read another's cache: what sharing saves is the difference."""
    c = text_config(config)
    if c["model_type"] in ("phi4flash", "hunyuan"):
        return [Layer("F", ("grow", gqa(c))) if layer.letter == "X" else layer for layer in layers_of(config)]
    c["num_kv_shared_layers"] = 0
    return FORMULAS[c["model_type"]](c, width(config))


def run_lengths(letters):
    out = []
    for x in letters:
        if out and out[-1][0] == x:
            out[-1][1] += 1
        else:
            out.append([x, 1])
    return " ".join("%s%d" % (x, n) for x, n in out)


def pattern(layers):
    return run_lengths([layer.letter for layer in layers])


# ---- the pieces --------------------------------------------------------------------------------------------------------

def get(c, key, default):
    """The value of a key, its class default where it is absent: absent is not null."""
    return c[key] if key in c else default


def kv_heads(c, absent=None):
    """null means one KV head for each attention head; absent means the class default."""
    n = get(c, "num_key_value_heads", absent)
    return n if n is not None else c["num_attention_heads"]


def head_dim(c, absent=None):
    """null or 0 means hidden / heads."""
    return get(c, "head_dim", absent) or c["hidden_size"] // c["num_attention_heads"]


def limit(c):
    return c.get("max_position_embeddings")


def windowed(c, w, n):
    """A window that never binds (w >= the context limit) is inert and its layer full here, until somebody asks for a
    context beyond the limit; without a window it is full for good."""
    if not w:
        return Layer("F", ("grow", n))
    if limit(c) and w >= limit(c):
        return Layer("F", ("window", w, n))
    return Layer("S", ("window", w, n))


def gqa(c, absent_kv=None, absent_dim=None):
    return 2 * kv_heads(c, absent_kv) * head_dim(c, absent_dim)


def uniform(absent_kv=None, absent_dim=None):
    """Full attention on every layer: 2 x kv heads x head dim a token."""
    return lambda c, b: [Layer("F", ("grow", gqa(c, absent_kv, absent_dim)))] * c["num_hidden_layers"]


def mha(layers, heads, hidden):
    """Models without a KV-head field: every head has its own K and V, hidden wide."""
    return lambda c, b: [Layer("F", ("grow", 2 * (c[hidden] // c[heads]) * c[heads]))] * c[layers]


def listed(c, full, sliding):
    """layer_types, cut to num_hidden_layers: a longer list has MTP layers behind (step3p5)."""
    labels = {"full_attention": full, "attention": full, "sliding_attention": sliding}
    return [labels[x] for x in c["layer_types"][:c["num_hidden_layers"]]]


# ---- full attention ------------------------------------------------------------------------------------------------------

# llama: kv null -> heads; head_dim null -> hidden / heads (A.1, A.2). num_key_value_heads is present in every entry.
# cohere, olmo2, stablelm, glm4_moe, minimax_m2 (attn_type_list of ones is inert, trap E5), hunyuan_v1_dense (no CLA in the
# class, trap E6), internlm2, minicpm, deepseek (MoE 16B, GQA), baichuan, internlm (no kv key: MHA): uniform full attention.
# dots1: sliding only from max_window_layers on, whose default 62 is the layer count: every layer full.
# mimo: use_sliding_window false in the published file; num_nextn_predict_layers is MTP, not counted.

def mixtral(c, b):
    """All layers sliding if sliding_window is not null; class default null (architectures.yaml mixtral, phi3, ministral3)."""
    return [windowed(c, c.get("sliding_window"), gqa(c, 8))] * c["num_hidden_layers"]


def phi3(c, b):
    return [windowed(c, c.get("sliding_window"), gqa(c))] * c["num_hidden_layers"]


def mistral(c, b):
    """As mixtral, but the key ABSENT means 4096 (architectures.yaml mistral; trap E3)."""
    return [windowed(c, get(c, "sliding_window", 4096), gqa(c, 8))] * c["num_hidden_layers"]


def qwen2(c, b):
    """use_sliding_window (default false) switches the window on, from layer max_window_layers on (a trap: many files state a window and switch it off)."""
    n = gqa(c, 32, 128 if c["model_type"] == "qwen3" else None)
    on = c.get("use_sliding_window", False) and c.get("sliding_window")
    return [windowed(c, on if on and i >= get(c, "max_window_layers", 28) else None, n) for i in range(c["num_hidden_layers"])]


def dbrx(c, b):
    """KV heads are attn_config.kv_n_heads, default 1 (architectures.yaml dbrx)."""
    n = 2 * c["attn_config"].get("kv_n_heads", 1) * (c["d_model"] // c["n_heads"])
    return [Layer("F", ("grow", n))] * c["n_layers"]


def mpt(c, b):
    """MHA unless attn_config.kv_n_heads says otherwise (A.2)."""
    n = 2 * (c["attn_config"].get("kv_n_heads") or c["n_heads"]) * (c["d_model"] // c["n_heads"])
    return [Layer("F", ("grow", n))] * c["n_layers"]


def phi_msft(c, b):
    """phi-2's old names: n_embd, n_head, n_head_kv (null = n_head), n_layer (A.2, A.3)."""
    n = 2 * (c.get("n_head_kv") or c["n_head"]) * (c["n_embd"] // c["n_head"])
    return [Layer("F", ("grow", n))] * c["n_layer"]


def nemotron_nas(c, b):
    """block_configs[i].attention: no_op or replace_with_linear keeps nothing; kv heads = heads / n_heads_in_group
    (architectures.yaml nemotron-nas; vLLM nemotron_nas.py:134-156)."""
    out = []
    for block in c["block_configs"]:
        a = block["attention"]
        if a["no_op"] or a["replace_with_linear"]:
            out.append(Layer("-"))
        else:
            out.append(Layer("F", ("grow", 2 * (c["num_attention_heads"] // a["n_heads_in_group"]) * head_dim(c))))
    return out


def hunyuan(c, b):
    """use_cla: layers with i mod cla_share_factor [2] == 0 own a cache, the others read it (vLLM hunyuan_v1.py:489)."""
    own, reader = Layer("F", ("grow", gqa(c))), Layer("X")
    factor = get(c, "cla_share_factor", 2) if c.get("use_cla") else 1
    return [reader if i % factor else own for i in range(c["num_hidden_layers"])]


# ---- windows and chunks ----------------------------------------------------------------------------------------------------

def gemma2(c, b):
    """Even layers slide; 4 KV heads and head_dim 256 by class."""
    n = gqa(c, 4, 256)
    return [windowed(c, None if i % 2 else get(c, "sliding_window", 4096), n) for i in range(c["num_hidden_layers"])]


def olmo3(c, b):
    """Full if (i+1) mod 4 == 0, else sliding [4096]."""
    return [windowed(c, get(c, "sliding_window", 4096) if (i + 1) % 4 else None, gqa(c)) for i in range(c["num_hidden_layers"])]


def gemma3_text(c, b):
    """Full if (i+1) mod sliding_window_pattern [6] == 0; layer_types wins; _sliding_window_pattern is not read (E14).
    Class defaults: 26 layers, 8 heads, 4 KV heads, head_dim 256, window 4096 (architectures.yaml gemma3_text)."""
    n = 2 * get(c, "num_key_value_heads", 4) * get(c, "head_dim", 256)
    w = get(c, "sliding_window", 4096)
    if c.get("layer_types"):
        return listed(c, Layer("F", ("grow", n)), windowed(c, w, n))
    p = get(c, "sliding_window_pattern", 6)
    return [windowed(c, w if (i + 1) % p else None, n) for i in range(get(c, "num_hidden_layers", 26))]


def by_list(absent_kv=None, absent_dim=None, default_window=None):
    """layer_types decides."""
    def formula(c, b):
        n = gqa(c, absent_kv, absent_dim)
        return listed(c, Layer("F", ("grow", n)), windowed(c, get(c, "sliding_window", default_window), n))
    return formula


def llama4_text(c, b):
    """no_rope_layers[i] = 1 (has RoPE) is chunked, 0 full; missing or [] means int((i+1) mod 4 != 0); the chunk is
    8192. At a whole number of chunks the current chunk holds attention_chunk_size tokens, as min(c, chunk) says."""
    n = gqa(c, 8, 128)
    every = get(c, "no_rope_layer_interval", 4)
    rope = c.get("no_rope_layers") or [int((i + 1) % every != 0) for i in range(c["num_hidden_layers"])]
    return [Layer("C", ("window", get(c, "attention_chunk_size", 8192), n)) if r else Layer("F", ("grow", n)) for r in rope]


def mimo_v2_flash(c, b):
    """hybrid_layer_pattern[i]: 1 slides with swa_* heads and widths, 0 is full; K and V differ (192 and 128).
    attention_chunk_size is inert."""
    full = Layer("F", ("grow", c["num_key_value_heads"] * (c["head_dim"] + c["v_head_dim"])))
    swa = c["swa_num_key_value_heads"] * (c["swa_head_dim"] + c["swa_v_head_dim"])
    return [windowed(c, c["sliding_window_size"], swa) if x else full for x in c["hybrid_layer_pattern"]]


def gemma3n_text(c, b):
    """The last num_kv_shared_layers [15] own no cache (architectures.yaml gemma3n_text)."""
    n = 2 * get(c, "num_key_value_heads", 2) * get(c, "head_dim", 256)
    own = c["num_hidden_layers"] - get(c, "num_kv_shared_layers", 15)
    layers = listed(c, Layer("F", ("grow", n)), windowed(c, get(c, "sliding_window", 512), n))
    return layers[:own] + [Layer("X")] * (len(layers) - own)


def gemma4_text(c, b):
    """Full layers are global_head_dim [512] wide, with num_global_key_value_heads only if attention_k_eq_v; K and V are both
    kept (E11); the last layer is full; the last num_kv_shared_layers [0] own nothing; window 512 by class, and
    use_bidirectional_attention "vision" leaves it (only "all" halves it) (architectures.yaml gemma4_text)."""
    kv = get(c, "num_key_value_heads", 4)
    wide = (c.get("num_global_key_value_heads") or kv) if c.get("attention_k_eq_v") else kv
    full = Layer("F", ("grow", 2 * wide * get(c, "global_head_dim", 512)))
    layers = listed(c, full, windowed(c, get(c, "sliding_window", 512), 2 * kv * get(c, "head_dim", 256)))
    layers[-1] = full
    own = c["num_hidden_layers"] - get(c, "num_kv_shared_layers", 0)
    return layers[:own] + [Layer("X")] * (len(layers) - own)


def phi4flash(c, b):
    """h = L/2. Even i <= h: Mamba-1; even i > h: gated memory unit, nothing. Odd i < h: window; i = h+1: the only full
    cache; odd i > h+1 read it. Mamba-1: (K-1) x d + d x N, d = 2 x hidden, N = 16, K = 4 by class."""
    layers, h = c["num_hidden_layers"], c["num_hidden_layers"] // 2
    n = gqa(c, 4)
    window = c.get("sliding_window", 2047)
    inner = get(c, "mamba_expand", 2) * c["hidden_size"]
    state = (get(c, "mamba_d_conv", 4) - 1 + get(c, "mamba_d_state", 16)) * inner * b
    out = []
    for i in range(layers):
        if i % 2 == 0:
            out.append(Layer("R", ("fixed", state)) if i <= h else Layer("G"))
        elif i < h:
            out.append(windowed(c, window[i] if isinstance(window, list) else window, n))
        else:
            out.append(Layer("F", ("grow", n)) if i == h + 1 else Layer("X"))
    return out


# ---- latents ---------------------------------------------------------------------------------------------------------------

def row(c, rank=512, rope=64):
    """kv_lora_rank + qk_rope_head_dim elements a token, one head, no V (MLA)."""
    return get(c, "kv_lora_rank", rank) + get(c, "qk_rope_head_dim", rope)


def mla(c, b):
    """deepseek_v2, deepseek_v3, kimi_k2 (remapped to deepseek_v3). KV heads and head_dim are
    decoys (E8); num_nextn_predict_layers is MTP and not counted."""
    return [Layer("M", ("grow", row(c)))] * c["num_hidden_layers"]


def glm_moe_dsa(c, b):
    """Latent everywhere; an index key of index_head_dim [128] only where indexer_types[i] is "full": default full iff
    max(i - offset + 1, 0) mod freq == 0, freq 1 by class, so all (architectures.yaml glm_moe_dsa)."""
    layers = c["num_hidden_layers"]
    types = c.get("indexer_types")
    if not types and c.get("index_topk_pattern"):
        types = ["full" if x == "F" else "shared" for x in c["index_topk_pattern"]]
    if not types:
        freq, offset = get(c, "index_topk_freq", 1), get(c, "index_skip_topk_offset", 2)
        types = ["full" if max(i - offset + 1, 0) % freq == 0 else "shared" for i in range(layers)]
    full = Layer("I", ("grow", row(c) + get(c, "index_head_dim", 128)))
    return [full if t == "full" else Layer("M", ("grow", row(c))) for t in types]


def deepseek_v4(c, b):
    """Every layer: one K=V head of head_dim in a window of 128, counted once. Ratio 4: an entry of head_dim and an index key
    for each 4 tokens; ratio 128: an entry for each 128 tokens (C.8). What waits to be compressed is a state, so of fixed
    size: up to ratio - 1 tokens, kv and gate, of two series each for ratio 4, where the last group's first
    series (4 x dim, kv and gate) is kept besides; for the compressor and for the indexer (C.8; Transformers 5.17
    modeling_deepseek_v4.py:162-292)."""
    ratios = c["compress_ratios"][:c["num_hidden_layers"]]
    dim, index = get(c, "head_dim", 512), get(c, "index_head_dim", 128)
    window = ("window", get(c, "sliding_window", 128), dim)
    kinds = {
        0: Layer("S", window),
        4: Layer("c", window, ("per", 4, dim + index), ("fixed", (3 * 2 * 2 + 2 * 4) * (dim + index) * b)),
        128: Layer("k", window, ("per", 128, dim), ("fixed", 127 * 2 * dim * b)),
    }
    return [kinds[r] for r in ratios]


def minimax_m3(c, b):
    """Full K and V everywhere; where sparse_attention_freq[i], one index key of sparse_index_dim (index_head_dim [128])
    a token besides (architectures.yaml minimax_m3_vl_text)."""
    n = gqa(c, 4, 128)
    s = c.get("sparse_attention_config") or {}
    freq = s.get("sparse_attention_freq") or [0] * c["num_hidden_layers"]
    index = s.get("sparse_index_dim") or get(c, "index_head_dim", 128)
    return [Layer("F", ("grow", n + (index if x else 0))) for x in freq]


# ---- states ----------------------------------------------------------------------------------------------------------------

def mamba1(inner, kernel, n, b):
    """(K-1) x d_inner + d_inner x N, in the model's dtype."""
    return ("fixed", (kernel - 1 + n) * inner * b)


def mamba2(heads, dim, n, groups, kernel, b, ssm):
    """(K-1) x (H*P + 2*G*N) in the model's dtype + H x P x N in the state's."""
    return ("fixed", (kernel - 1) * (heads * dim + 2 * groups * n) * b + heads * dim * n * ssm)


def jamba(c, b):
    """Attention iff i mod period [8] == offset [4], else Mamba-1 with d_inner = mamba_expand x hidden."""
    kv = Layer("F", ("grow", gqa(c, 8)))
    inner = get(c, "mamba_expand", 2) * c["hidden_size"]
    state = Layer("R", mamba1(inner, get(c, "mamba_d_conv", 4), get(c, "mamba_d_state", 16), b))
    period, offset = get(c, "attn_layer_period", 8), get(c, "attn_layer_offset", 4)
    return [kv if i % period == offset else state for i in range(c["num_hidden_layers"])]


def falcon_mamba(c, b):
    """Mamba-1 everywhere; the file's intermediate_size is the inner width, `expand` a decoy."""
    inner = c.get("intermediate_size") or get(c, "expand", 2) * c["hidden_size"]
    return [Layer("R", mamba1(inner, get(c, "conv_kernel", 4), get(c, "state_size", 16), b))] * c["num_hidden_layers"]


def falcon_h1(c, b):
    """Every layer holds K and V and a Mamba-2 state; H x P = mamba_n_heads x mamba_d_head, which mamba_d_ssm equals where it
    is given and not mamba_expand x hidden (the 0.5B file has no mamba_d_ssm)."""
    state = mamba2(get(c, "mamba_n_heads", 128), c["mamba_d_head"], get(c, "mamba_d_state", 256), get(c, "mamba_n_groups", 1),
                   get(c, "mamba_d_conv", 4), b, b)
    return [Layer("H", ("grow", gqa(c, 8)), state)] * c["num_hidden_layers"]


def granitemoehybrid(c, b):
    """layer_types "attention" or "mamba"; Mamba-2 with d_head = mamba_expand [2] x hidden / mamba_n_heads where "auto" or
    absent, 1 group, K 4 by class; heads 32 and KV heads null -> heads by class (architectures.yaml granitemoehybrid)."""
    heads = get(c, "num_attention_heads", 32)
    kv = get(c, "num_key_value_heads", None) or heads
    full = Layer("F", ("grow", 2 * kv * (c["hidden_size"] // heads)))
    dim = c.get("mamba_d_head", "auto")
    if dim == "auto":
        dim = get(c, "mamba_expand", 2) * c["hidden_size"] // get(c, "mamba_n_heads", 128)
    state = Layer("R", mamba2(get(c, "mamba_n_heads", 128), dim, get(c, "mamba_d_state", 256), get(c, "mamba_n_groups", 1),
                              get(c, "mamba_d_conv", 4), b, b))
    return [full if x in ("attention", "full_attention") else state for x in c["layer_types"]]


def nemotron_h(c, b):
    """One mark or name per layer: M mamba, * attention, - MLP, E MoE; the list gives the count. H x P = mamba_num_heads x
    mamba_head_dim (`expand` inert); SSM state in mamba_ssm_cache_dtype, float32 by class; attention_head_dim is the older
    head_dim, 128 by class; mtp_* lists are not counted (architectures.yaml nemotron_h)."""
    marks = c.get("hybrid_override_pattern") or c["layers_block_type"]
    dim = c.get("head_dim") or c.get("attention_head_dim") or 128
    ssm = {"float32": 4, "bfloat16": 2, "float16": 2}[get(c, "mamba_ssm_cache_dtype", "float32")]
    state = Layer("R", mamba2(get(c, "mamba_num_heads", 128), get(c, "mamba_head_dim", 64), get(c, "ssm_state_size", 128),
                              get(c, "n_groups", 8), get(c, "conv_kernel", 4), b, ssm))
    full, none = Layer("F", ("grow", 2 * get(c, "num_key_value_heads", 8) * dim)), Layer("-")
    kinds = {"M": state, "mamba": state, "*": full, "attention": full, "-": none, "mlp": none, "E": none, "moe": none}
    return [kinds[x] for x in marks]


def gdn(c, b, ssm):
    """Gated delta net: (K-1) x (2 Hk Dk + Hv Dv) in the model's dtype + Hv x Dk x Dv."""
    hk, hv = get(c, "linear_num_key_heads", 16), get(c, "linear_num_value_heads", 32)
    dk, dv = get(c, "linear_key_head_dim", 128), get(c, "linear_value_head_dim", 128)
    return Layer("R", ("fixed", (get(c, "linear_conv_kernel_dim", 4) - 1) * (2 * hk * dk + hv * dv) * b + hv * dk * dv * ssm))


def qwen3_next(c, b):
    """Full if (i+1) mod full_attention_interval [4] == 0, layer_types wins. The recurrent state: mamba_ssm_dtype where the
    file says it (Qwen3.5: float32), else float32 too, as the kernels keep it ("fp32 in the torch path"; 3.07 GiB is with float32, bf16 gives 3.04). MTP layers are not counted."""
    ssm = {"float32": 4, "bfloat16": 2, "float16": 2}[c.get("mamba_ssm_dtype", "float32")]
    full, state = Layer("F", ("grow", gqa(c, {"qwen3_5_text": 4}.get(c["model_type"], 2), 256))), gdn(c, b, ssm)
    if c.get("layer_types"):
        return [full if x == "full_attention" else state for x in c["layer_types"]]
    return [state if (i + 1) % get(c, "full_attention_interval", 4) else full for i in range(c["num_hidden_layers"])]


def kimi_linear(c, b):
    """full_attn_layers and kda_layers are 1-based; MLA rows are kv_lora_rank + qk_rope_head_dim also with
    mla_use_nope; KDA: (K-1) x 3 H D in the model's dtype + H x D x D in fp32 always."""
    a = c["linear_attn_config"]
    h, d = a["num_heads"], a["head_dim"]
    state = Layer("R", ("fixed", (a["short_conv_kernel_size"] - 1) * 3 * h * d * b + h * d * d * 4))
    latent = Layer("M", ("grow", row(c)))
    assert sorted(a["full_attn_layers"] + a["kda_layers"]) == list(range(1, c["num_hidden_layers"] + 1))
    return [latent if i + 1 in a["full_attn_layers"] else state for i in range(c["num_hidden_layers"])]


def lfm2_moe(c, b):
    """layer_types conv or full_attention; a short convolution keeps (K-1) x hidden, K = conv_L_cache [3] (C)."""
    state = Layer("V", ("fixed", (get(c, "conv_L_cache", 3) - 1) * c["hidden_size"] * b))
    full = Layer("F", ("grow", gqa(c, 8)))
    return [full if x == "full_attention" else state for x in c["layer_types"]]


FORMULAS = {
    "afmoe": by_list(None, 128, 1024),
    "baichuan": mha("num_hidden_layers", "num_attention_heads", "hidden_size"),
    "cohere": uniform(),
    "dbrx": dbrx,
    "deepseek": uniform(),
    "deepseek_v2": mla,
    "deepseek_v3": mla,
    "deepseek_v4": deepseek_v4,
    "dots1": uniform(32),
    "ernie4_5_moe": uniform(4),
    "exaone4": by_list(32, None, 4096),
    "exaone4_5_text": by_list(32, None, 4096),
    "falcon_h1": falcon_h1,
    "falcon_mamba": falcon_mamba,
    "gemma": uniform(16, 256),
    "gemma2": gemma2,
    "gemma3_text": gemma3_text,
    "gemma3n_text": gemma3n_text,
    "gemma4_text": gemma4_text,
    "glm": uniform(2, 128),
    "glm4_moe": uniform(8, 128),
    "glm4v_moe_text": uniform(8),
    "glm_moe_dsa": glm_moe_dsa,
    "gpt_neox": mha("num_hidden_layers", "num_attention_heads", "hidden_size"),
    "gpt_oss": by_list(8, 64, 128),
    "gptj": mha("n_layer", "n_head", "n_embd"),
    "granitemoehybrid": granitemoehybrid,
    "hunyuan": hunyuan,
    "hunyuan_v1_dense": uniform(),
    "internlm": mha("num_hidden_layers", "num_attention_heads", "hidden_size"),
    "internlm2": uniform(),
    "jamba": jamba,
    "kimi_k2": mla,
    "kimi_linear": kimi_linear,
    "lfm2_moe": lfm2_moe,
    "llama": uniform(),
    "llama4_text": llama4_text,
    "mimo": uniform(),
    "mimo_v2_flash": mimo_v2_flash,
    "minicpm": uniform(),
    "minicpm3": mla,
    "minimax_m2": uniform(8, 128),
    "minimax_m3": minimax_m3,
    "minimax_m3_vl_text": minimax_m3,
    "ministral3": phi3,
    "mistral": mistral,
    "mixtral": mixtral,
    "mpt": mpt,
    "nemotron-nas": nemotron_nas,
    "nemotron_h": nemotron_h,
    "olmo2": uniform(),
    "olmo3": olmo3,
    "phi-msft": phi_msft,
    "phi3": phi3,
    "phi4flash": phi4flash,
    "phimoe": mixtral,
    "qwen2": qwen2,
    "qwen3": qwen2,
    "qwen3_5_moe_text": qwen3_next,
    "qwen3_5_text": qwen3_next,
    "qwen3_next": qwen3_next,
    "seed_oss": uniform(None, 128),
    "stablelm": uniform(32),
    "step3p7": by_list(8, 128),  # the vendored file is flat and keeps num_key_value_heads; 3 MTP layers not counted
}

# wrappers whose text_config leaves its own model_type out
NESTED = {"minimax_m3_vl": "minimax_m3_vl_text", "gemma3": "gemma3_text"}

# published files that say no model_type (the subset kept in models.yaml): by their architectures
ARCHITECTURES = {"GPTNeoXForCausalLM": "gpt_neox"}


def text_config(config):
    """The text decoder, with its model type."""
    inner = config.get("text_config")
    c = dict(inner if inner is not None else config)
    if not c.get("model_type"):
        c["model_type"] = NESTED.get(config.get("model_type")) or ARCHITECTURES.get((config.get("architectures") or [None])[0])
    return c


def width(config):
    """Bytes of the model's dtype: dtype before torch_dtype, the text config's before the root's (A.4, E16); 2 where none
    is said (every model here that has states and says no dtype was published in bf16)."""
    inner = config.get("text_config") or {}
    for c in (inner, config):
        for key in ("dtype", "torch_dtype"):
            if c.get(key):
                return {"float32": 4, "bfloat16": 2, "float16": 2}[c[key]]
    return 2


def layers_of(config):
    c = text_config(config)
    if c["model_type"] not in FORMULAS:
        raise Unknown(c["model_type"])
    return FORMULAS[c["model_type"]](c, width(config))
