"""SambaY (phi4flash) fixtures: plain PyTorch in float64, written from the architecture's description.

Transformers 5.17 has no such class. Two programs are here: `whole_pass`, with dense masks over all positions, and
`Decoder`, one token at a time over the caches that the architecture needs (conv columns, scan states, windows, one
full layer). They must agree. The description: arXiv 2507.06607 (SambaY, GMU), 2410.05258 (differential attention),
2312.00752 (Mamba-1).
"""
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from common import find_directory, generator, max_abs, token_ids, write_expected, write_json

AGREE = 1e-9


def config_of(**keys):
    return {"architectures": ["Phi4FlashForCausalLM"], "model_type": "phi4flash", "hidden_size": 48,
            "intermediate_size": 48, "num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 4,
            "vocab_size": 101, "sliding_window": 5, "mb_per_layer": 2, "mamba_d_state": 16, "mamba_d_conv": 4,
            "mamba_expand": 2, "layer_norm_eps": 1e-05, "hidden_act": "silu", "tie_word_embeddings": True,
            "max_position_embeddings": 256, "mlp_bias": False, "lm_head_bias": False, "torch_dtype": "float32",
            "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0} | keys


# name: seed, config, tokens, prefill
FIXTURES = {
    "sambay-12": (201, config_of(), 70, 41),
    "sambay-8-short-prompt": (202, config_of(num_hidden_layers=8, hidden_size=40, intermediate_size=56,
                                             num_attention_heads=4, num_key_value_heads=4, mamba_d_state=8,
                                             sliding_window=7), 44, 2),
}


class Shape:
    """The sizes that a config gives, and what each layer is."""

    def __init__(self, config):
        self.layers = config["num_hidden_layers"]
        self.half = self.layers // 2
        self.hidden = config["hidden_size"]
        self.inner = config["mamba_expand"] * self.hidden
        self.states = config["mamba_d_state"]
        self.taps = config["mamba_d_conv"]
        rank = config.get("mamba_dt_rank", "auto")
        self.rank = math.ceil(self.hidden / 16) if rank == "auto" else rank
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.head_dim = self.hidden // self.heads
        self.mlp = config["intermediate_size"]
        self.vocab = config["vocab_size"]
        self.window = config["sliding_window"]
        self.eps = config["layer_norm_eps"]

    def mixer(self, i):
        if i % 2 == 0:
            return "mamba" if i <= self.half else "gmu"
        if i > self.half + 1:
            return "cross"
        return "full" if i == self.half + 1 else "window"


# ---- the parts that do not mix positions ---------------------------------------------------------------------------

class Weights:
    """A checkpoint in float64; layer(i) names a layer's tensors from `attn.` or `mlp.` on."""

    def __init__(self, config, tensors):
        self.shape = Shape(config)
        self.tensors = {name: value.double() for name, value in tensors.items()}

    def __getitem__(self, name):
        return self.tensors["model." + name]

    def layer(self, i):
        return lambda name: self.tensors[f"model.layers.{i}.{name}"]


def layer_norm(x, weight, bias, eps):
    x = x - x.mean(-1, keepdim=True)
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight + bias


def mlp(w, x):
    gate, up = (x @ w("mlp.fc1.weight").T).chunk(2, -1)
    return (F.silu(gate) * up) @ w("mlp.fc2.weight").T


def gated_memory(w, x, memory):
    return (F.silu(x @ w("attn.in_proj.weight").T) * memory) @ w("attn.out_proj.weight").T


def scan_inputs(shape, w, u):
    """dt, B and C of convolved input `u`."""
    dt, b, c = (u @ w("attn.x_proj.weight").T).split([shape.rank, shape.states, shape.states], -1)
    return F.softplus(dt @ w("attn.dt_proj.weight").T + w("attn.dt_proj.bias")), b, c


def scan_step(w, state, u, dt, b, c):
    """One token: the new state [inner, states] and the output [inner]."""
    decay = torch.exp(dt[:, None] * -torch.exp(w("attn.A_log")))
    state = decay * state + (dt * u)[:, None] * b[None, :]
    return state, state @ c + w("attn.D") * u


def project(shape, w, x, cross):
    """Queries [..., heads, d], keys and values [..., kv_heads, d]; a cross layer has queries only."""
    rows = x @ w("attn.Wqkv.weight").T + w("attn.Wqkv.bias")
    q_width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    q = rows[..., :q_width].unflatten(-1, (shape.heads, shape.head_dim))
    if cross:
        return q, None, None
    k, v = rows[..., q_width:].split(kv_width, -1)
    split = (shape.kv_heads, shape.head_dim)
    return q, k.unflatten(-1, split), v.unflatten(-1, split)


def differential(shape, w, i, q, k, v, seen):
    """Attention of queries [n, heads, d] over keys and values [m, kv_heads, d]; seen [n, m] says which are visible."""
    group = shape.heads // shape.kv_heads
    pairs = v.unflatten(1, (shape.kv_heads // 2, 2)).flatten(2)  # two value heads are one of twice the width

    def attend(side):
        keys = k[:, side::2].repeat_interleave(group, 1)
        scores = torch.einsum("nhd,mhd->hnm", q[:, side::2], keys) / math.sqrt(shape.head_dim)
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        return torch.einsum("hnm,mhd->nhd", weights, pairs.repeat_interleave(group, 1))

    start = 0.8 - 0.6 * math.exp(-0.3 * i)
    part = "attn.inner_cross_attn."
    strength = (torch.exp(w(part + "lambda_q1") @ w(part + "lambda_k1"))
                - torch.exp(w(part + "lambda_q2") @ w(part + "lambda_k2")) + start)
    out = attend(0) - strength * attend(1)
    out = out / torch.sqrt((out * out).mean(-1, keepdim=True) + 1e-5) * w(part + "subln.weight") * (1 - start)
    return out.flatten(1) @ w("attn.out_proj.weight").T + w("attn.out_proj.bias")


# ---- all positions at once -----------------------------------------------------------------------------------------

def mamba_pass(shape, w, x):
    """A Mamba-1 mixer over all tokens: its gated output, and the output before the gate."""
    u, z = (x @ w("attn.in_proj.weight").T).chunk(2, -1)
    padded = F.pad(u.T[None], (shape.taps - 1, 0))
    u = F.silu(F.conv1d(padded, w("attn.conv1d.weight"), w("attn.conv1d.bias"), groups=shape.inner)[0].T)
    dt, b, c = scan_inputs(shape, w, u)
    state, outputs = torch.zeros(shape.inner, shape.states, dtype=torch.float64), []
    for t in range(len(x)):
        state, y = scan_step(w, state, u[t], dt[t], b[t], c[t])
        outputs.append(y)
    y = torch.stack(outputs)
    return (y * F.silu(z)) @ w("attn.out_proj.weight").T, y


def whole_pass(weights, ids):
    shape = weights.shape
    x = weights["embed_tokens.weight"][ids]
    at = torch.arange(len(ids))
    causal = at[None, :] <= at[:, None]
    near = causal & (at[None, :] > at[:, None] - shape.window)
    memory = shared = None
    for i in range(shape.layers):
        w, kind = weights.layer(i), shape.mixer(i)
        normed = layer_norm(x, w("input_layernorm.weight"), w("input_layernorm.bias"), shape.eps)
        if kind == "mamba":
            out, ungated = mamba_pass(shape, w, normed)
            memory = ungated if i == shape.half else memory
        elif kind == "gmu":
            out = gated_memory(w, normed, memory)
        else:
            q, k, v = project(shape, w, normed, kind == "cross")
            if kind == "full":
                shared = k, v
            if kind == "cross":
                k, v = shared
            out = differential(shape, w, i, q, k, v, near if kind == "window" else causal)
        x = x + out
        x = x + mlp(w, layer_norm(x, w("post_attention_layernorm.weight"), w("post_attention_layernorm.bias"),
                                  shape.eps))
    x = layer_norm(x, weights["final_layernorm.weight"], weights["final_layernorm.bias"], shape.eps)
    return x @ weights["embed_tokens.weight"].T


# ---- one token at a time -------------------------------------------------------------------------------------------

class Decoder:
    """Holds what the architecture needs and no more: K - 1 conv columns, states, w tokens, and one full cache."""

    def __init__(self, weights):
        self.weights, shape = weights, weights.shape
        kinds = [shape.mixer(i) for i in range(shape.layers)]
        self.columns = {i: torch.zeros(shape.taps - 1, shape.inner, dtype=torch.float64)
                        for i, kind in enumerate(kinds) if kind == "mamba"}
        self.states = {i: torch.zeros(shape.inner, shape.states, dtype=torch.float64) for i in self.columns}
        self.keys = {i: [] for i, kind in enumerate(kinds) if kind in ("window", "full")}
        self.values = {i: [] for i in self.keys}

    def mamba(self, i, w, x):
        u, z = (w("attn.in_proj.weight") @ x).chunk(2)
        taps = torch.cat([self.columns[i], u[None]])
        self.columns[i] = taps[1:]
        u = F.silu((taps.T * w("attn.conv1d.weight")[:, 0]).sum(1) + w("attn.conv1d.bias"))
        dt, b, c = scan_inputs(self.weights.shape, w, u)
        self.states[i], y = scan_step(w, self.states[i], u, dt, b, c)
        return w("attn.out_proj.weight") @ (y * F.silu(z)), y

    def attention(self, i, w, x, kind):
        shape = self.weights.shape
        q, k, v = project(shape, w, x[None], kind == "cross")
        owner = i
        if kind == "cross":
            owner = shape.half + 1
        else:
            self.keys[i].append(k[0])
            self.values[i].append(v[0])
            if kind == "window":
                self.keys[i], self.values[i] = self.keys[i][-shape.window:], self.values[i][-shape.window:]
        k, v = torch.stack(self.keys[owner]), torch.stack(self.values[owner])
        return differential(shape, w, i, q, k, v, torch.ones(1, len(k), dtype=torch.bool))[0]

    def step(self, token):
        """The logits after `token`."""
        weights, shape = self.weights, self.weights.shape
        x = weights["embed_tokens.weight"][token]
        memory = None
        for i in range(shape.layers):
            w, kind = weights.layer(i), shape.mixer(i)
            normed = layer_norm(x, w("input_layernorm.weight"), w("input_layernorm.bias"), shape.eps)
            if kind == "mamba":
                out, ungated = self.mamba(i, w, normed)
                memory = ungated if i == shape.half else memory
            elif kind == "gmu":
                out = gated_memory(w, normed, memory)
            else:
                out = self.attention(i, w, normed, kind)
            x = x + out
            x = x + mlp(w, layer_norm(x, w("post_attention_layernorm.weight"), w("post_attention_layernorm.bias"),
                                      shape.eps))
        x = layer_norm(x, weights["final_layernorm.weight"], weights["final_layernorm.bias"], shape.eps)
        return weights["embed_tokens.weight"] @ x

    def cached_elements(self):
        def count(parts):
            return sum(part.numel() for part in parts)
        return {"conv": count(self.columns.values()), "scan": count(self.states.values()),
                "kv": sum(count(parts) for kept in (self.keys, self.values) for parts in kept.values())}


# ---- weights and files ---------------------------------------------------------------------------------------------

def draw_weights(config, seed):
    shape, source, tensors = Shape(config), generator(seed), {}

    def normal(*size, scale=1.0, around=0.0):
        return around + scale * torch.randn(size, generator=source)

    def matrix(rows, columns, scale=1.0):
        return normal(rows, columns, scale=scale / columns ** 0.5)

    def norm(name):
        tensors[name + ".weight"] = normal(shape.hidden, scale=0.1, around=1.0)
        tensors[name + ".bias"] = normal(shape.hidden, scale=0.1)

    tensors["model.embed_tokens.weight"] = matrix(shape.vocab, shape.hidden)
    norm("model.final_layernorm")
    for i in range(shape.layers):
        at, kind = f"model.layers.{i}.", shape.mixer(i)
        norm(at + "input_layernorm")
        norm(at + "post_attention_layernorm")
        tensors[at + "mlp.fc1.weight"] = matrix(2 * shape.mlp, shape.hidden)
        tensors[at + "mlp.fc2.weight"] = matrix(shape.hidden, shape.mlp)
        at += "attn."
        if kind in ("mamba", "gmu"):
            tensors[at + "in_proj.weight"] = matrix(shape.inner * (2 if kind == "mamba" else 1), shape.hidden, 1.5)
            tensors[at + "out_proj.weight"] = matrix(shape.hidden, shape.inner, 1.5)
        if kind == "mamba":
            counts = torch.arange(1, shape.states + 1).float().repeat(shape.inner, 1)
            tensors[at + "A_log"] = counts.log() + normal(shape.inner, shape.states, scale=0.1)
            tensors[at + "D"] = normal(shape.inner, scale=0.1, around=1.0)
            tensors[at + "conv1d.weight"] = normal(shape.inner, 1, shape.taps, scale=0.5)
            tensors[at + "conv1d.bias"] = normal(shape.inner, scale=0.2)
            tensors[at + "x_proj.weight"] = matrix(shape.rank + 2 * shape.states, shape.inner, 2.0)
            tensors[at + "dt_proj.weight"] = matrix(shape.inner, shape.rank)
            steps = torch.exp(normal(shape.inner, scale=0.8, around=math.log(0.1)))  # dt about 0.02 to 0.5
            tensors[at + "dt_proj.bias"] = steps + torch.log(-torch.expm1(-steps))   # softplus gives `steps` back
        if kind in ("window", "full", "cross"):
            kv_rows = 0 if kind == "cross" else 2 * shape.kv_heads * shape.head_dim
            tensors[at + "Wqkv.weight"] = matrix(shape.hidden + kv_rows, shape.hidden, 1.5)
            tensors[at + "Wqkv.bias"] = normal(shape.hidden + kv_rows, scale=0.2)
            tensors[at + "out_proj.weight"] = matrix(shape.hidden, shape.hidden)
            tensors[at + "out_proj.bias"] = normal(shape.hidden, scale=0.2)
            for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
                tensors[at + "inner_cross_attn." + name] = normal(shape.head_dim, scale=0.2)
            tensors[at + "inner_cross_attn.subln.weight"] = normal(2 * shape.head_dim, scale=0.1, around=1.0)
    return tensors


def read_fixture(directory):
    config = json.loads((directory / "config.json").read_text())
    return Weights(config, load_file(directory / "model.safetensors"))


def decode(weights, ids, prefill):
    decoder = Decoder(weights)
    rows = [decoder.step(token) for token in ids[:-1]]
    return torch.stack(rows[prefill - 1:]), decoder.cached_elements()


def make(out, name):
    seed, config, tokens, prefill = FIXTURES[name]
    directory = find_directory(out, name)
    ids = token_ids(seed, tokens, config["vocab_size"])
    tensors = draw_weights(config, seed)
    spread = whole_pass(Weights(config, tensors), ids[0]).std().float()
    tensors["model.final_layernorm.weight"] /= spread
    tensors["model.final_layernorm.bias"] /= spread
    write_json(directory / "config.json", config)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})

    weights = read_fixture(directory)
    logits = whole_pass(weights, ids[0])
    decoded, cached = decode(weights, ids[0], prefill)
    difference = max_abs(decoded, logits[prefill - 1:-1])
    assert difference < AGREE, (name, difference)
    write_expected(directory / "expected.safetensors", ids, logits, decoded)
    moved = {f"window {size}": max_abs(whole_pass(Weights(config | {"sliding_window": size}, tensors), ids[0]), logits)
             for size in (config["sliding_window"] + 1, tokens)}
    write_json(directory / "measured.json",
               {"reference": "plain PyTorch, float64, from the architecture description", "transformers": None,
                "torch": torch.__version__, "prefill": prefill, "tokens": tokens,
                "parameters": sum(value.numel() for value in tensors.values()), "dtype": "float32", "attn": "eager",
                "decode_vs_full_max_abs": difference, "logits_std": logits.std().item(),
                "logits_max_abs_when": moved, "layers": [weights.shape.mixer(i) for i in range(weights.shape.layers)],
                "cached_elements_after_decode": cached})
    print(f"{name:22} std {logits.std():.3f}  decode-full {difference:.1e}  {moved}")


def check_against(directory):
    """How far this program is from another implementation's logits, kept in the same form."""
    weights, expected = read_fixture(directory), load_file(directory / "expected.safetensors")
    return max_abs(whole_pass(weights, expected["input_ids"][0]), expected["logits"])


def main(out):
    other = Path(__file__).resolve().parents[1] / "data" / "hf-tiny" / "sambay-8"
    if other.is_dir():
        difference = check_against(other)
        assert difference < 1e-5, difference
        print(f"hf-tiny/sambay-8 agrees within {difference:.1e}")
    for name in FIXTURES:
        make(out, name)
