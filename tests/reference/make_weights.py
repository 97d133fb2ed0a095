"""Writes tests/data/weights.jsonl: how many parameters Transformers' own classes have, class by class.

Each model of the catalogue whose class Transformers has, and the made-up configs below, is built on torch's meta
device: shapes without bytes. Towers for pictures and sound are left out, and so are layers of multi-token prediction,
which these classes do not build. Types whose class is the repository's own are counted by MLX-LM's. Needs nothing from
the network; each way keeps the other's lines.

    python make_weights.py          with torch and transformers 5.17
    python make_weights.py mlx      with mlx and mlx-lm 0.32.2
"""

import importlib
import importlib.metadata
import json
import math
import os
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "data" / "models"
OUT = ROOT / "tests" / "data" / "weights.jsonl"
TOWERS = re.compile(r"vision|visual|audio|multi_modal|mm_projector")
STATE = re.compile(r"\.linear_attn\.|\.mamba\.|\.conv\.|"
                   r"\.mixer\.(in_proj|out_proj|conv1d|x_proj|dt_proj|dt_bias|A_log|D$)")
ATTENTION = re.compile(r"attn|attention|\.mixer\.[qkvo]_proj")

# Configs that state what the catalogue's do not: sizes that differ from the defaults, biases, norms, dense layers.
DECODER = {"vocab_size": 1024, "hidden_size": 256, "intermediate_size": 640, "num_hidden_layers": 8,
           "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 4096, "pad_token_id": 0}
EXPERTS = {"moe_intermediate_size": 96, "num_experts": 12, "num_experts_per_tok": 2}
MLA = {"kv_lora_rank": 64, "q_lora_rank": 96, "qk_nope_head_dim": 48, "qk_rope_head_dim": 16, "v_head_dim": 32}
SHARED = {"moe_intermediate_size": 96, "n_routed_experts": 12, "num_experts_per_tok": 2, "n_shared_experts": 2,
          "first_k_dense_replace": 2, "n_group": 1, "topk_group": 1}
LINEAR = {"linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 32,
          "linear_value_head_dim": 48, "linear_conv_kernel_dim": 3, "head_dim": 64}
MADE_UP = [
    {"model_type": "qwen3_next", **DECODER, **EXPERTS, **LINEAR, "shared_expert_intermediate_size": 80,
     "decoder_sparse_step": 2, "mlp_only_layers": [3]},
    {"model_type": "qwen3_5_text", **DECODER, **LINEAR, "attention_bias": True, "tie_word_embeddings": True},
    {"model_type": "qwen3_5_moe_text", **DECODER, **EXPERTS, **LINEAR, "shared_expert_intermediate_size": 80},
    {"model_type": "qwen2_moe", **DECODER, **EXPERTS, "shared_expert_intermediate_size": 80, "qkv_bias": False,
     "mlp_only_layers": [0, 5]},
    {"model_type": "qwen2_moe", **DECODER, **EXPERTS, "shared_expert_intermediate_size": 80, "decoder_sparse_step": 2},
    {"model_type": "gemma", **DECODER, "head_dim": 64, "attention_bias": True, "tie_word_embeddings": False},
    {"model_type": "gemma3n_text", **DECODER, "head_dim": 64, "num_hidden_layers": 10, "num_kv_shared_layers": 4,
     "intermediate_size": [640] * 5 + [512] * 5, "laurel_rank": 16, "hidden_size_per_layer_input": 32,
     "vocab_size_per_layer_input": 1000, "activation_sparsity_pattern": [0.0] * 10},
    {"model_type": "gemma3n_text", **DECODER, "head_dim": 64, "num_hidden_layers": 10, "num_kv_shared_layers": 0,
     "altup_num_inputs": 3, "activation_sparsity_pattern": [0.0] * 10},
    {"model_type": "gemma4_text", **DECODER, "head_dim": 32, "global_head_dim": 64, "num_hidden_layers": 12,
     "num_kv_shared_layers": 4, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 32,
     "vocab_size_per_layer_input": 1000},
    {"model_type": "gemma4_text", **DECODER, "head_dim": 32, "global_head_dim": 64, "attention_k_eq_v": True,
     "num_global_key_value_heads": 1, "enable_moe_block": True, "num_experts": 12, "top_k_experts": 2,
     "moe_intermediate_size": 96, "hidden_size_per_layer_input": 0, "tie_word_embeddings": False},
    {"model_type": "llama4_text", **DECODER, "head_dim": 32, "intermediate_size_mlp": 720, "num_local_experts": 6,
     "interleave_moe_layer_step": 3, "attention_bias": True},
    {"model_type": "llama4_text", **DECODER, "head_dim": 32, "intermediate_size_mlp": 720, "num_local_experts": 6,
     "moe_layers": [1, 2]},
    {"model_type": "glm4_moe", **DECODER, **SHARED, "attention_bias": True},
    {"model_type": "glm4_moe", **DECODER, **SHARED, "head_dim": 48, "use_qk_norm": True},
    {"model_type": "glm4v_moe", "text_config": {**DECODER, **SHARED, "attention_bias": False}},
    {"model_type": "deepseek_v2", **DECODER, **MLA, **SHARED, "topk_method": "greedy"},
    {"model_type": "glm_moe_dsa", **DECODER, **MLA, **SHARED, "index_n_heads": 4, "index_head_dim": 24,
     "index_topk_freq": 2, "index_skip_topk_offset": 1},
    {"model_type": "dots1", **DECODER, **SHARED, "attention_bias": True},
    {"model_type": "minimax_m2", **DECODER, "head_dim": 48, "num_local_experts": 6},
    {"model_type": "mimo_v2_flash", **DECODER, **SHARED, "head_dim": 48, "v_head_dim": 32, "swa_num_attention_heads": 8,
     "swa_num_key_value_heads": 4, "swa_head_dim": 48, "swa_v_head_dim": 32,
     "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 6},
    {"model_type": "nemotron_h", **DECODER, "head_dim": 48, "hybrid_override_pattern": "M-M*ME*E", "ssm_state_size": 24,
     "mamba_num_heads": 6, "mamba_head_dim": 32, "n_groups": 2, "conv_kernel": 3, "use_conv_bias": False,
     "n_routed_experts": 12, "moe_intermediate_size": 96, "moe_shared_expert_intermediate_size": 80,
     "moe_latent_size": 64},
    {"model_type": "falcon_h1", **DECODER, "mamba_d_ssm": 384, "mamba_n_heads": 12, "mamba_d_head": 32,
     "mamba_n_groups": 2, "mamba_d_state": 24, "mamba_rms_norm": True, "tie_word_embeddings": True},
    {"model_type": "falcon_h1", **DECODER, "head_dim": 48, "mamba_d_ssm": 384, "mamba_n_heads": 12, "mamba_d_head": 32,
     "mamba_d_state": 24, "mamba_conv_bias": False, "tie_word_embeddings": False},
    {"model_type": "granitemoehybrid", **DECODER, "layer_types": ["mamba", "mamba", "attention", "mamba"] * 2,
     "mamba_n_heads": 16, "mamba_d_state": 24, "mamba_n_groups": 2, "shared_intermediate_size": 320,
     "num_local_experts": 0, "tie_word_embeddings": True},
    {"model_type": "granitemoehybrid", **DECODER, "layer_types": ["mamba", "mamba", "attention", "mamba"] * 2,
     "mamba_n_heads": 16, "mamba_d_state": 24, "shared_intermediate_size": 320, "num_local_experts": 6,
     "attention_bias": True, "mamba_conv_bias": False, "tie_word_embeddings": False},
    {"model_type": "jamba", **DECODER, "num_experts": 6, "expert_layer_period": 3, "expert_layer_offset": 1,
     "mamba_dt_rank": 20, "mamba_conv_bias": False, "attn_layer_period": 4, "attn_layer_offset": 2,
     "tie_word_embeddings": True},
    {"model_type": "jamba", **DECODER, "num_experts": 1, "attn_layer_period": 4, "attn_layer_offset": 2},
    {"model_type": "lfm2_moe", **DECODER, **EXPERTS, "num_dense_layers": 3, "conv_bias": True, "use_expert_bias": False,
     "layer_types": ["conv", "conv", "full_attention", "conv"] * 2, "tie_word_embeddings": False},
    {"model_type": "olmo2", **DECODER, "attention_bias": True},
    {"model_type": "cohere", **DECODER, "attention_bias": True, "use_qk_norm": True},
    {"model_type": "cohere2", **DECODER, "attention_bias": True},
    {"model_type": "cohere2", **DECODER, "tie_word_embeddings": False},
    {"model_type": "gpt_neox", **DECODER, "attention_bias": False, "tie_word_embeddings": True},
    {"model_type": "gptj", "vocab_size": 1024, "n_embd": 256, "n_layer": 4, "n_head": 8, "rotary_dim": 16,
     "n_inner": 640},
    {"model_type": "exaone4", **DECODER, "head_dim": 48, "tie_word_embeddings": True},
    {"model_type": "ministral3", **DECODER, "head_dim": 48, "tie_word_embeddings": False},
    {"model_type": "hunyuan_v1_dense", **DECODER, "head_dim": 48, "attention_bias": True, "tie_word_embeddings": True},
    {"model_type": "stablelm", **DECODER, "qk_layernorm": True, "use_parallel_residual": True,
     "tie_word_embeddings": True},
    {"model_type": "mpt", "vocab_size": 1024, "d_model": 256, "n_layers": 4, "n_heads": 8},
    {"model_type": "dbrx", "vocab_size": 1024, "d_model": 256, "n_layers": 4, "n_heads": 8, "max_seq_len": 4096,
     "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0},
     "ffn_config": {"hidden_size": 256, "ffn_hidden_size": 320, "moe_num_experts": 6}},
    {"model_type": "falcon_mamba", **DECODER, "state_size": 24, "conv_kernel": 3, "expand": 3, "time_step_rank": 20,
     "use_conv_bias": False, "tie_word_embeddings": False},
    {"model_type": "afmoe", **DECODER, **EXPERTS, "head_dim": 48, "num_dense_layers": 2, "num_shared_experts": 1},
    {"model_type": "smollm3", **DECODER, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False},
    {"model_type": "smollm3", **DECODER},
    {"model_type": "starcoder2", **DECODER, "tie_word_embeddings": False},
    {"model_type": "starcoder2", **DECODER, "use_bias": False},
    {"model_type": "glm4", **DECODER, "head_dim": 48},
    {"model_type": "glm4", **DECODER, "attention_bias": False, "tie_word_embeddings": True},
    {"model_type": "phimoe", **DECODER, "num_local_experts": 6, "attention_bias": True, "lm_head_bias": True},
    {"model_type": "phimoe", **DECODER, "num_local_experts": 6},
    {"model_type": "ernie4_5_moe", **DECODER, "moe_intermediate_size": 96, "moe_num_experts": 12, "moe_k": 2,
     "moe_num_shared_experts": 2, "moe_layer_start_index": 2, "tie_word_embeddings": False},
    {"model_type": "phi", **DECODER},
    {"model_type": "qwen3_vl", "text_config": {**DECODER, "head_dim": 48, "attention_bias": True}},
    {"model_type": "qwen3_vl", "text_config": {**DECODER, "head_dim": 48}, "tie_word_embeddings": True},
    {"model_type": "qwen3_vl_moe", "text_config": {**DECODER, **EXPERTS, "head_dim": 48, "decoder_sparse_step": 2}},
    {"model_type": "qwen2_vl", "text_config": DECODER},
    {"model_type": "qwen2_5_vl", "text_config": DECODER, "tie_word_embeddings": True},
    {"model_type": "granite", **DECODER, "attention_bias": True, "mlp_bias": True},
    {"model_type": "olmo3", **DECODER, "tie_word_embeddings": True},
    {"model_type": "olmoe", **DECODER, "num_experts": 6},
    {"model_type": "seed_oss", **DECODER, "head_dim": 48, "attention_out_bias": True, "mlp_bias": True},
    {"model_type": "seed_oss", **DECODER, "head_dim": 48, "attention_bias": False},
    {"model_type": "glm", **DECODER, "head_dim": 48},
    {"model_type": "glm", **DECODER, "head_dim": 48, "attention_bias": False, "tie_word_embeddings": True},
    {"model_type": "ernie4_5", **DECODER, "head_dim": 48},
    {"model_type": "ernie4_5", **DECODER, "head_dim": 48, "tie_word_embeddings": False},
    {"model_type": "kimi_linear", **DECODER, **MLA, **SHARED, "num_experts": 12, "head_dim": 64,
     "num_key_value_heads": 8,
     "linear_attn_config": {"num_heads": 4, "head_dim": 40, "short_conv_kernel_size": 3, "full_attn_layers": [4, 8],
                            "kda_layers": [1, 2, 3, 5, 6, 7]}},
]
# What a config on disk leaves to the class that reads it, or says in the words of another.
TYPES = {"GPTNeoXForCausalLM": "gpt_neox"}
READ_AS = {"kimi_k2": "deepseek_v3"}
OF_MLX = ["internlm2", "minicpm", "mimo", "deepseek"]
MADE_UP_FOR_MLX = [
    {"model_type": "internlm2", **DECODER, "bias": False, "tie_word_embeddings": True, "rms_norm_eps": 1e-5},
    {"model_type": "minicpm", **DECODER, "dim_model_base": 256, "scale_depth": 1.4, "scale_emb": 12,
     "tie_word_embeddings": True, "rms_norm_eps": 1e-5},
    {"model_type": "mimo", **DECODER, "attention_bias": True, "tie_word_embeddings": True, "rms_norm_eps": 1e-5},
    {"model_type": "deepseek", **DECODER, **SHARED},
]


def weight_class(name, delta=()):
    """delta: beginnings of the names of layers whose self_attn is a linear recurrence."""
    parts = name.split(".")
    if parts[0] in ("lm_head", "embed_out", "output"):
        return "head"
    if re.search(r"embed_tokens|tok_embeddings|\.wte\.|\.embed_in\.|\.embeddings\.", name):
        return "embedding"
    if "norm" in parts[-3 if parts[-2].isdigit() else -2] or parts[-2].startswith("ln_") or parts[-1] == "layer_scalar":
        return "norm"
    if STATE.search(name) or name.startswith(tuple(delta)):
        return "state"
    return "attention" if ATTENTION.search(name) else "feed-forward"


def read_config(config):
    from transformers import AutoConfig

    config = dict(config)
    config.pop("quantization_config", None)
    text = config.get("text_config")
    if isinstance(text, dict):  # the decoder alone, by its own class
        text = dict(text)
        text.pop("quantization_config", None)
        text["model_type"] = READ_AS.get(text.get("model_type"), text.get("model_type"))
        config["text_config"] = text
        if text["model_type"] == config["model_type"] or config["model_type"] == "gemma3n":
            config = {**text, "model_type": text["model_type"] or "gemma3n_text"}
    elif "model_type" not in config:
        config["model_type"] = TYPES[config["architectures"][0]]
    elif config["model_type"] == "phi-msft":  # the older words for what phi says
        config = {"model_type": "phi", "vocab_size": config["vocab_size"], "hidden_size": config["n_embd"],
                  "intermediate_size": config["n_inner"] or 4 * config["n_embd"],
                  "num_hidden_layers": config["n_layer"], "num_attention_heads": config["n_head"]}
    config["model_type"] = READ_AS.get(config["model_type"], config["model_type"])
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        return AutoConfig.from_pretrained(folder)


def build(config):
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    config = read_config(config)
    with torch.device("meta"):
        try:
            return AutoModelForCausalLM.from_config(config)
        except (AttributeError, ValueError, ImportError):
            return AutoModelForImageTextToText.from_config(config)


def add_up(shapes, source):
    gate = "forget_gate.A_log"
    delta = [name.removesuffix(gate) for name in shapes if name.endswith("self_attn." + gate)]
    classes = {}
    for name, shape in shapes.items():
        if not TOWERS.search(name):
            kind = weight_class(name, delta)
            classes[kind] = classes.get(kind, 0) + math.prod(shape)
    return {"parameters": sum(classes.values()), "classes": dict(sorted(classes.items())), "source": source}


def count(config):
    model = build(config)
    saved = set(model.state_dict())
    shapes = {name: tensor.shape for name, tensor in model.named_parameters()}
    shapes |= {name: tensor.shape for name, tensor in model.named_buffers() if name in saved}
    return add_up(shapes, f"transformers {importlib.metadata.version('transformers')}, {type(model).__name__}")


def count_mlx(config):
    from mlx.utils import tree_flatten

    if config["model_type"] not in OF_MLX:
        raise ValueError("not asked of MLX-LM")
    module = importlib.import_module("mlx_lm.models." + config["model_type"])
    model = module.Model(module.ModelArgs.from_dict({"rms_norm_eps": 1e-6, **config}))  # lazy: nothing is drawn
    shapes = {name: tensor.shape for name, tensor in tree_flatten(model.parameters())}
    return add_up(shapes, f"mlx-lm {importlib.metadata.version('mlx-lm')}, {config['model_type']}.py")


def main(mlx):
    os.environ["HF_HUB_OFFLINE"] = "1"
    counted, made_up = (count_mlx, MADE_UP_FOR_MLX) if mlx else (count, MADE_UP)
    lines = []
    for path in sorted(MODELS.glob("*/*/config.json")):
        model = str(path.parent.relative_to(MODELS))
        config = json.loads(path.read_text())
        if "auto_map" in config:
            continue
        try:
            lines.append({"model": model, **counted(config)})
        except Exception as problem:  # there is no such class, or it refuses the config
            print(f"{model}: {str(problem).splitlines()[0][:110]}", file=sys.stderr)
    for config in made_up:
        lines.append({"config": config, **counted(config)})
    print(f"{len(lines)} models, {lines[0]['source']}", file=sys.stderr)
    old = [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []
    kept = [line for line in old if line["source"].startswith("mlx-lm") != mlx]
    lines = kept + lines if mlx else lines + kept
    OUT.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1:] == ["mlx"])
