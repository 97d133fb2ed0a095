#!/usr/bin/env python3
"""Headers of the catalogue's models as llama.cpp's conversion/ would write them, for tests/unit/test_gguf_configs.c.

gguf_headers.py data/models > tests/data/gguf-headers.jsonl

One record a model: its catalogue name and the keys that say what it caches. base() is TextModel.set_gguf_parameters of
conversion/base.py; the functions below are what the class of each architecture adds or replaces.
"""
import json
import os
import sys


def text_config(config):
    for key in ("text_config", "llm_config"):
        if isinstance(config.get(key), dict):
            return {**config, **config[key]}
    return config


def first(config, *keys):
    return next((config[key] for key in keys if config.get(key) is not None), None)


def base(config):
    meta = {
        "block_count": first(config, "n_layers", "num_hidden_layers", "n_layer", "num_layers"),
        "context_length": first(config, "max_position_embeddings", "n_ctx", "n_positions", "max_length",
                                "max_sequence_length", "model_max_length"),
        "embedding_length": first(config, "hidden_size", "n_embd", "dim"),
        "feed_forward_length": first(config, "intermediate_size", "n_inner", "hidden_dim"),
        "attention.head_count": first(config, "num_attention_heads", "n_head", "n_heads"),
        "attention.head_count_kv": first(config, "num_key_value_heads", "n_kv_heads"),
        "expert_count": first(config, "num_local_experts", "num_experts"),
        "attention.key_length": config.get("head_dim"),
        "attention.value_length": config.get("head_dim"),
    }
    return {key: value for key, value in meta.items() if isinstance(value, int)}


def window(config):
    return {"attention.sliding_window": config["sliding_window"]} if config.get("sliding_window") else {}


def pattern(config):
    return {"attention.sliding_window_pattern": [kind == "sliding_attention" for kind in config["layer_types"]]}


def mla(config):
    rope = config["qk_rope_head_dim"]
    return {"attention.head_count_kv": 1, "attention.kv_lora_rank": config["kv_lora_rank"],
            "attention.key_length": config["kv_lora_rank"] + rope, "attention.value_length": config["kv_lora_rank"],
            "attention.key_length_mla": config["qk_nope_head_dim"] + rope,
            "attention.value_length_mla": config["v_head_dim"], "rope.dimension_count": rope}


def gemma(config):
    return {"attention.head_count_kv": config.get("num_key_value_heads", 4), "attention.head_count":
            config.get("num_attention_heads", 8), "attention.key_length": config.get("head_dim", 256),
            "attention.value_length": config.get("head_dim", 256), "context_length":
            config.get("max_position_embeddings", 131072)}


def gemma4(config):
    sliding = [kind == "sliding_attention" for kind in config["layer_types"]]
    wide, narrow = config["global_head_dim"], config["head_dim"]
    meta = {**window(config), "attention.sliding_window_pattern": sliding, "attention.key_length": wide,
            "attention.value_length": wide, "attention.key_length_swa": narrow, "attention.value_length_swa": narrow,
            "attention.shared_kv_layers": config["num_kv_shared_layers"]}
    full, few = config.get("num_global_key_value_heads"), config.get("num_key_value_heads")
    if full is not None:
        meta["attention.head_count_kv"] = [few if is_sliding else full for is_sliding in sliding]
    return meta


def mamba2(config, prefix, inner):
    heads = first(config, prefix + "n_heads", prefix + "num_heads")
    return {"ssm.conv_kernel": first(config, prefix + "d_conv", "conv_kernel"), "ssm.inner_size": inner,
            "ssm.state_size": first(config, prefix + "d_state", "ssm_state_size"), "ssm.time_step_rank": heads,
            "ssm.group_count": first(config, prefix + "n_groups", "n_groups")}


def granitehybrid(config):
    kinds = config["layer_types"]
    heads = [config["num_key_value_heads"] if kind == "attention" else 0 for kind in kinds]
    return {"attention.head_count_kv": heads,
            **mamba2(config, "mamba_", config["mamba_expand"] * config["hidden_size"])}


def nemotron_h(config):
    letters = config.get("hybrid_override_pattern") or "".join(
        {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}[kind] for kind in config["layers_block_type"])
    wide = config.get("head_dim") or config.get("attention_head_dim")
    return {"block_count": len(letters),
            "attention.head_count_kv": [config["num_key_value_heads"] if letter == "*" else 0 for letter in letters],
            "feed_forward_length": [1 if letter in "-E" else 0 for letter in letters],
            "attention.key_length": wide, "attention.value_length": wide,
            **mamba2(config, "mamba_", config["mamba_num_heads"] * config["mamba_head_dim"])}


def jamba(config):
    period, offset = config["attn_layer_period"], config["attn_layer_offset"]
    return {"attention.head_count_kv": [config["num_key_value_heads"] if i % period == offset else 0
                                        for i in range(config["num_hidden_layers"])],
            "ssm.conv_kernel": config["mamba_d_conv"], "ssm.state_size": config["mamba_d_state"],
            "ssm.inner_size": config["mamba_expand"] * config["hidden_size"],
            "ssm.time_step_rank": config.get("mamba_dt_rank") or -(-config["hidden_size"] // 16)}


def mamba(config):
    inner = config.get("intermediate_size") or 2 * config["hidden_size"]
    return {"attention.head_count": 0, "attention.head_count_kv": 0, "context_length": 1048576,
            "ssm.conv_kernel": config.get("conv_kernel", 4), "ssm.inner_size": inner,
            "ssm.state_size": config.get("state_size", 16), "ssm.time_step_rank": -(-config["hidden_size"] // 16)}


def qwen35(config):
    return {"ssm.conv_kernel": config["linear_conv_kernel_dim"], "ssm.state_size": config["linear_key_head_dim"],
            "ssm.group_count": config["linear_num_key_heads"], "ssm.time_step_rank": config["linear_num_value_heads"],
            "ssm.inner_size": config["linear_value_head_dim"] * config["linear_num_value_heads"],
            "full_attention_interval": config.get("full_attention_interval", 4)}


def kimi_linear(config):
    linear = config["linear_attn_config"]
    heads = [1 if i + 1 in linear["full_attn_layers"] else 0 for i in range(config["num_hidden_layers"])]
    return {**mla(config), "attention.head_count_kv": heads, "kda.head_dim": linear["head_dim"],
            "ssm.conv_kernel": linear["short_conv_kernel_size"]}


def mimo2(config):
    hybrid = list(config["hybrid_layer_pattern"]) + [1, 1, 1]
    return {"block_count": len(hybrid), "nextn_predict_layers": 3, "attention.sliding_window_pattern": hybrid,
            "attention.head_count_kv": [config["swa_num_key_value_heads" if sliding else "num_key_value_heads"]
                                        for sliding in hybrid],
            "attention.sliding_window": first(config, "sliding_window", "sliding_window_size"),
            "attention.value_length": config["v_head_dim"]}


def deci(config):
    heads = config["num_attention_heads"]
    groups = [block["attention"].get("n_heads_in_group") for block in config["block_configs"]]
    wide = config["hidden_size"] // heads
    return {"attention.head_count": [heads if group else 0 for group in groups],
            "attention.head_count_kv": [heads // group if group else 0 for group in groups],
            "attention.key_length": wide, "attention.value_length": wide}


def lfm2(config):
    return {"attention.head_count_kv": [config["num_key_value_heads"] if kind == "full_attention" else 0
                                        for kind in config["layer_types"]], "shortconv.l_cache": config["conv_L_cache"]}


def indexed(config):
    return {**mla(config), "attention.indexer.head_count": config["index_n_heads"],
            "attention.indexer.key_length": config["index_head_dim"], "attention.indexer.top_k": config["index_topk"],
            "attention.indexer.types": [kind == "full" for kind in config["indexer_types"]]
            if config.get("indexer_types") else None}


# model_type of the decoder -> general.architecture, and what its class adds
ARCHITECTURES = {
    "llama": ("llama", dict), "mixtral": ("llama", dict), "gemma": ("gemma", gemma),
    "gemma2": ("gemma2", lambda c: {**gemma(c), **window(c)}),
    "gemma3": ("gemma3", lambda c: {**gemma(c), **window(c)}),
    "gemma3_text": ("gemma3", lambda c: {**gemma(c), **window(c)}),
    "gemma3n": ("gemma3n", lambda c: {**gemma(c), **window(c), **pattern(c),
                                      "attention.shared_kv_layers": c["num_kv_shared_layers"]}),
    "gemma4": ("gemma4", gemma4), "gpt_oss": ("gpt-oss", window), "qwen2": ("qwen2", dict), "qwen3": ("qwen3", dict),
    "qwen3_5": ("qwen35", qwen35), "qwen3_5_moe": ("qwen35moe", qwen35),
    "phi3": ("phi3", lambda c: {"attention.sliding_window": c.get("sliding_window") or 0}),
    "llama4": ("llama4", dict), "jamba": ("jamba", jamba), "granitemoehybrid": ("granitehybrid", granitehybrid),
    "falcon_h1": ("falcon-h1", lambda c: mamba2(c, "mamba_", c.get("mamba_d_ssm") or c["mamba_n_heads"] * c["mamba_d_head"])), "lfm2_moe": ("lfm2moe", lfm2),
    "nemotron_h": ("nemotron_h", nemotron_h), "falcon_mamba": ("mamba", mamba),
    "kimi_linear": ("kimi-linear", kimi_linear), "deepseek_v2": ("deepseek2", mla),
    "deepseek_v3": ("deepseek2", lambda c: {**mla(c), "expert_gating_func": 2}), "glm4_moe": ("glm4moe", dict),
    "glm_moe_dsa": ("glm-dsa", indexed), "minimax_m2": ("minimax-m2", dict), "olmo2": ("olmo2", dict),
    "afmoe": ("afmoe", window), "exaone4": ("exaone4", lambda c: {**window(c), **pattern(c)}),
    "cohere": ("command-r", dict), "gptj": ("gptj", dict), "stablelm": ("stablelm", dict),
    "internlm2": ("internlm2", dict), "minicpm": ("minicpm", dict), "dots1": ("dots1", dict),
    "hunyuan_v1_dense": ("hunyuan-dense", dict), "mimo_v2_flash": ("mimo2", mimo2), "nemotron-nas": ("deci", deci),
    "ministral3": ("mistral3", dict),
}

# Models whose config.json says less than the model has, and so less than its header.
LESS = {"zai-org/GLM-5.2-FP8": "no indexer_types; llama.cpp knows those of GLM-5.2",
        "mistralai/Ministral-3-3B-Instruct-2512": "a text_config under the model_type of the decoder itself"}


def main():
    for folder, _, files in sorted(os.walk(sys.argv[1])):
        if "config.json" not in files:
            continue
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
        architecture, more = ARCHITECTURES.get(config.get("model_type"), (None, None))
        if architecture is None or os.path.relpath(folder, sys.argv[1]) in LESS:
            continue
        merged = text_config(config)
        try:
            meta = {**base(merged), **({} if more is dict else more(merged))}
        except (KeyError, TypeError) as problem:  # a key that the catalogue's file leaves to the class's default
            print(f"{folder}: {problem!r}", file=sys.stderr)
            continue
        named = {"general.architecture": architecture}
        named.update({f"{architecture}.{key}": value for key, value in meta.items() if value is not None})
        print(json.dumps({"model": os.path.relpath(folder, sys.argv[1]), "meta": named}, separators=(",", ":")))


main()
