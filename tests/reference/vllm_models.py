"""What vLLM's model code registers for a model: a list of caches in the order of registration.

Read from a config.json of the catalogue where there is one (`catalogue`), else written down (`GEOMETRIES`).
A cache is a dict: layer (decoder layer), kind (full, sliding, chunked, latent, index, state, cross) and its sizes for
the whole model, before tensor parallelism.  Layers that read another layer's cache register nothing.
"""
import json
import os


def full(layer, heads, k, v=None):
    return {"layer": layer, "kind": "full", "kv_heads": heads, "k_dim": k, "v_dim": v or k}


def sliding(layer, heads, k, window, v=None):
    return {**full(layer, heads, k, v), "kind": "sliding", "window": window}


def chunked(layer, heads, k, chunk):
    return {**full(layer, heads, k), "kind": "chunked", "window": chunk}


def latent(layer, width):
    return {"layer": layer, "kind": "latent", "kv_heads": 1, "k_dim": width, "v_dim": 0}


def index(layer, width):
    # deepseek_v2.py: one fp8 key and a float32 scale for every 128 of its elements
    return {"layer": layer, "kind": "index", "kv_heads": 1, "k_dim": width + width // 128 * 4, "v_dim": 0, "dtype_bytes": 1}


def cross(layer, heads, k):
    return {**full(layer, heads, k), "kind": "cross"}


def state(layer, mixer, **sizes):
    return {"layer": layer, "kind": "state", "mixer": mixer, **sizes}


def from_config(config):
    """The caches of one config.json, and what else the planner asks of the model."""
    text = config.get("text_config", config)
    kind = text.get("model_type", config.get("model_type"))
    layers = text["num_hidden_layers"]
    heads = text.get("num_key_value_heads", text.get("num_attention_heads"))
    head = text.get("head_dim") or text["hidden_size"] // text.get("num_attention_heads", 8)
    window = text.get("sliding_window")
    types = text.get("layer_types")
    facts = {"heads": heads, "head_size": head, "context": text.get("max_position_embeddings"),
             "architecture": config.get("architectures", [None])[0]}
    caches = []
    if kind == "gemma2":  # transformers: even layers have the window
        caches = [sliding(i, heads, head, window) if i % 2 == 0 else full(i, heads, head) for i in range(layers)]
    elif kind == "gemma3_text":  # every sixth layer is full; absent keys as in Gemma3TextConfig
        heads, head = text.get("num_key_value_heads", 4), text.get("head_dim", 256)
        caches = [full(i, heads, head) if (i + 1) % 6 == 0 else sliding(i, heads, head, window) for i in range(layers)]
        facts.update(heads=heads, head_size=head, context=text.get("max_position_embeddings", 131072))
    elif kind in ("gemma3n_text", "gemma4_text"):  # the last num_kv_shared_layers read earlier layers' caches
        for i in range(layers - text.get("num_kv_shared_layers", 0)):
            if types[i] == "full_attention":
                n = text["num_global_key_value_heads"] if text.get("attention_k_eq_v") else heads
                caches.append(full(i, n, text.get("global_head_dim", head)))
            else:
                caches.append(sliding(i, heads, head, window))
    elif kind == "llama4_text":
        chunk = text["attention_chunk_size"]
        caches = [full(i, heads, head) if (i + 1) % 4 == 0 else chunked(i, heads, head, chunk) for i in range(layers)]
    elif kind in ("deepseek_v3", "deepseek_v2", "kimi_k2"):
        width = text["kv_lora_rank"] + text["qk_rope_head_dim"]
        caches = [latent(i, width) for i in range(layers)]
        facts.update(heads=1, head_size=width, mla=True)
    elif kind == "glm_moe_dsa":
        width = text["kv_lora_rank"] + text["qk_rope_head_dim"]
        for i in range(layers):
            caches += [latent(i, width), index(i, text["index_head_dim"])]
        facts.update(heads=1, head_size=width, mla=True)
    elif kind == "deepseek_v4":  # models/deepseek_v4: five caches, in the order in which a layer's parts register
        for i, ratio in enumerate(text["compress_ratios"][:layers]):
            short = {"layer": i, "kv_heads": 1, "v_dim": 0}
            if ratio == 4:
                dim = text["index_head_dim"]
                caches.append({**index(i, dim), "kind": "compressed_index", "ratio": ratio})
                caches.append({**short, "kind": "index_compressor", "k_dim": 4 * dim, "dtype_bytes": 4, "window": 8, "block": 4})
            caches.append({**short, "kind": "window_latent", "k_dim": head, "window": window, "block": 64})
            if ratio > 1:
                caches.append({**short, "kind": "compressed_latent", "k_dim": head, "ratio": ratio})
                both = 2 if ratio == 4 else 1  # overlapping windows keep twice the states
                caches.append({**short, "kind": "compressor", "k_dim": 2 * both * head, "dtype_bytes": 4,
                               "window": both * ratio, "block": 4 if ratio == 4 else 8})
        facts.update(heads=1, head_size=head, mla=True, ds_v4=True)
    elif kind == "mimo_v2_flash":
        caches = [sliding(i, text["swa_num_key_value_heads"], text["swa_head_dim"], text["sliding_window_size"],
                          text["swa_v_head_dim"]) if swa else full(i, heads, head, text["v_head_dim"])
                  for i, swa in enumerate(text["hybrid_layer_pattern"])]
        facts.update(pads_v=True)
    elif kind in ("qwen3_5_text", "qwen3_5_moe_text"):
        for i in range(layers):
            caches.append(full(i, heads, head) if types[i] == "full_attention" else state(
                i, "gdn", k_heads=text["linear_num_key_heads"], k_dim=text["linear_key_head_dim"],
                v_heads=text["linear_num_value_heads"], v_dim=text["linear_value_head_dim"],
                kernel=text["linear_conv_kernel_dim"], ssm_dtype=text["mamba_ssm_dtype"]))
    elif kind == "nemotron_h":
        for i, letter in enumerate(text["hybrid_override_pattern"]):
            if letter == "*":
                caches.append(full(i, heads, head))
            elif letter == "M":
                caches.append(state(i, "mamba2", inner=text["mamba_num_heads"] * text["mamba_head_dim"],
                                    groups=text["n_groups"], heads=text["mamba_num_heads"], head=text["mamba_head_dim"],
                                    state=text["ssm_state_size"], kernel=text["conv_kernel"]))
        facts.update(chunk_size=128, nemotron_h=True, prefix_all=True)
    elif kind == "falcon_h1":
        inner = text.get("mamba_d_ssm") or text["hidden_size"] * text.get("mamba_expand", 2)
        if text.get("mamba_d_ssm") is None:
            inner = text["mamba_n_heads"] * text["mamba_d_head"]
        for i in range(layers):
            caches += [full(i, heads, head), state(i, "mamba2", inner=inner, groups=text["mamba_n_groups"],
                       heads=text["mamba_n_heads"], head=text["mamba_d_head"], state=text["mamba_d_state"],
                       kernel=text["mamba_d_conv"])]
        facts.update(chunk_size=text.get("mamba_chunk_size", 256), prefix_all=True)
    elif kind == "granitemoehybrid":
        inner = text["mamba_expand"] * text["hidden_size"]
        for i in range(layers):
            caches.append(full(i, heads, head) if types[i] == "attention" else state(
                i, "mamba2", inner=inner, groups=text["mamba_n_groups"], heads=text["mamba_n_heads"],
                head=text["mamba_d_head"], state=text["mamba_d_state"], kernel=text["mamba_d_conv"]))
        facts.update(chunk_size=256, prefix_all=True)
    elif kind == "jamba":
        for i in range(layers):
            caches.append(full(i, heads, head) if i % text["attn_layer_period"] == text["attn_layer_offset"] else state(
                i, "mamba1", inner=text["mamba_expand"] * text["hidden_size"], state=text["mamba_d_state"],
                kernel=text["mamba_d_conv"]))
        facts.update(prefix_all=True)
    elif kind == "lfm2_moe":
        for i in range(layers):
            caches.append(full(i, heads, head) if types[i] == "full_attention" else state(
                i, "short_conv", inner=text["hidden_size"], kernel=text["conv_L_cache"]))
    elif kind == "kimi_linear":
        width, linear = text["kv_lora_rank"] + text["qk_rope_head_dim"], text["linear_attn_config"]
        for i in range(layers):  # the config counts layers from 1
            caches.append(latent(i, width) if i + 1 in linear["full_attn_layers"] else state(
                i, "kda", heads=linear["num_heads"], head=linear["head_dim"], kernel=linear["short_conv_kernel_size"]))
        facts.update(heads=1, head_size=width, mla=True, context=text["model_max_length"])
    elif kind == "phi4flash":  # the model's own configuration class names its layers; the cross layers read layer 17
        names = ["mamba" if i % 2 == 0 else "attention" if i <= layers // 2 + 1 else "shared_attention" for i in range(layers)]
        for i, name in enumerate(names[:layers // 2 + 2]):
            caches.append(state(i, "mamba1", inner=2 * text["hidden_size"], state=16, kernel=4) if name == "mamba" else
                          sliding(i, heads, head, window) if i < layers // 2 else full(i, heads, head))
        facts.update(v0=True, layers_block_type=names)
    elif kind == "falcon_mamba":
        caches = [state(i, "mamba1", inner=text["intermediate_size"], state=text["state_size"], kernel=text["conv_kernel"])
                  for i in range(layers)]
        facts.update(attention_free=True)
    elif types:
        caches = [sliding(i, heads, head, window) if t == "sliding_attention" else full(i, heads, head)
                  for i, t in enumerate(types)]
    elif window and text.get("use_sliding_window", True):  # one window for all layers, however long it is
        caches = [sliding(i, heads, head, window) for i in range(layers)]
    else:
        caches = [full(i, heads, head) for i in range(layers)]
    facts["hybrid"] = len({c["kind"] == "state" for c in caches}) == 2
    return caches, facts


def gdn(full_every, layers, heads, head, **sizes):
    return [full(i, heads, head) if (i + 1) % full_every == 0 else state(i, "gdn", **sizes) for i in range(layers)]


QWEN3_NEXT = dict(k_heads=16, k_dim=128, v_heads=32, v_dim=128, kernel=4)
# Models that the catalogue does not hold: caches, facts.
GEOMETRIES = {
    "mistral-7b-v0.1": ([sliding(i, 8, 128, 4096) for i in range(32)], {"heads": 8, "head_size": 128}),
    "gpt-oss-20b-eagle": ([sliding(i, 8, 64, 128) if i % 2 == 0 else full(i, 8, 64) for i in range(24)] + [full(24, 8, 64)],
                          {"heads": 8, "head_size": 64}),
    "gemma-3n-e4b": ([full(i, 2, 256) if (i + 1) % 5 == 0 else sliding(i, 2, 256, 512) for i in range(20)],
                     {"heads": 2, "head_size": 256}),
    "deepseek-v3.2": ([c for i in range(61) for c in (latent(i, 576), index(i, 128))],
                      {"heads": 1, "head_size": 576, "mla": True}),
    "qwen3-next-80b": (gdn(4, 48, 2, 256, **QWEN3_NEXT), {"heads": 2, "head_size": 256, "hybrid": True}),
    "qwen3-next-80b-fp32": (gdn(4, 48, 2, 256, ssm_dtype="float32", **QWEN3_NEXT),
                            {"heads": 2, "head_size": 256, "hybrid": True}),
    "whisper-large-v3": ([c for i in range(32) for c in (full(i, 20, 64), cross(i, 20, 64))], {"heads": 20, "head_size": 64}),
    "qwen3-next-80b-mtp": (gdn(4, 48, 2, 256, **QWEN3_NEXT) + [full(48, 2, 256)],
                           {"heads": 2, "head_size": 256, "hybrid": True}),
}


def catalogue(root, model):
    with open(os.path.join(root, model, "config.json"), encoding="utf-8") as file:
        return from_config(json.load(file))


def get(root, model):
    """(caches, facts) of a catalogue model (has a slash) or of a written geometry."""
    if "/" in model:
        return catalogue(root, model)
    caches, facts = GEOMETRIES[model]
    return [dict(c) for c in caches], dict(facts)
