"""What the caches of real Hugging Face Transformers releases hold: tiny random models, bfloat16, on the CPU.

    pip install torch; pip install --target DIR transformers==VERSION [optimum-quanto hqq]
    PYTHONPATH=DIR python make_transformers.py VERSION [quantized] [MODEL...] >> rows.jsonl   one line a run
    python make_transformers.py configs > configs.jsonl               {"id", "config"} of every model used

tests/data/engines/transformers-measured.jsonl is the configs followed by the rows of every release. A row is one
generate() of the release: "bytes" has what the tensors of each layer's cache count, "storage" what the storages behind
them hold (a view keeps the whole tensor that it was cut from), in the order of the layers, after `tokens` tokens of
which the first `prompt` were fed at once. "cache" is the class of the cache, "layers" the classes that its layers have.
"""
import functools
import json
import sys
import tempfile
from pathlib import Path

BASE = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 96, "max_position_embeddings": 256,
        "rope_theta": 10000.0, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
        "tie_word_embeddings": False}
S, F = "sliding_attention", "full_attention"


def dense(kind, architecture, **keys):
    return {"model_type": kind, "architectures": [architecture]} | BASE | keys


MLA = {"kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
       "num_key_value_heads": 4, "num_hidden_layers": 3, "moe_intermediate_size": 32, "n_routed_experts": 4,
       "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
       "routed_scaling_factor": 1.0, "norm_topk_prob": True}


def latent(kind, architecture, **keys):
    return {key: value for key, value in dense(kind, architecture, **(MLA | keys)).items() if key != "head_dim"}


MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_n_groups": 1,
          "mamba_expand": 2, "mamba_chunk_size": 8, "mamba_conv_bias": True, "mamba_proj_bias": False}
CONFIGS = {
    "llama": dense("llama", "LlamaForCausalLM"),
    "mistral": dense("mistral", "MistralForCausalLM", sliding_window=8),
    "mistral-1": dense("mistral", "MistralForCausalLM", sliding_window=1),
    "mixtral": dense("mixtral", "MixtralForCausalLM", sliding_window=8, num_local_experts=2, num_experts_per_tok=1),
    "qwen2": dense("qwen2", "Qwen2ForCausalLM", sliding_window=8, use_sliding_window=True, max_window_layers=2),
    "qwen2-off": dense("qwen2", "Qwen2ForCausalLM", sliding_window=8, use_sliding_window=False,
                       max_window_layers=2),
    "phi3": dense("phi3", "Phi3ForCausalLM", sliding_window=8, original_max_position_embeddings=256),
    "starcoder2": dense("starcoder2", "Starcoder2ForCausalLM", sliding_window=8),
    "gemma2": dense("gemma2", "Gemma2ForCausalLM", sliding_window=8, query_pre_attn_scalar=16),
    "gemma3": dense("gemma3_text", "Gemma3ForCausalLM", sliding_window=8, sliding_window_pattern=3,
                    num_hidden_layers=5, query_pre_attn_scalar=16, rope_local_base_freq=10000.0),
    "gemma3n": dense("gemma3n_text", "Gemma3nForCausalLM", sliding_window=8, num_hidden_layers=10,
                     num_kv_shared_layers=4, layer_types=([S] * 4 + [F]) * 2, vocab_size_per_layer_input=96,
                     hidden_size_per_layer_input=16, laurel_rank=8, activation_sparsity_pattern=[0.0] * 10,
                     altup_num_inputs=2, intermediate_size=[64] * 10),
    "gpt-oss": dense("gpt_oss", "GptOssForCausalLM", sliding_window=8, layer_types=[S, F, S, F],
                     num_local_experts=4, num_experts_per_tok=2, rope_scaling=None),
    "cohere2": dense("cohere2", "Cohere2ForCausalLM", sliding_window=8, num_hidden_layers=5),
    "llama4": dense("llama4_text", "Llama4ForCausalLM", attention_chunk_size=8, num_hidden_layers=5,
                    intermediate_size_mlp=64, num_local_experts=2, num_experts_per_tok=1,
                    interleave_moe_layer_step=2, no_rope_layers=[1, 1, 1, 0, 1]),
    "deepseek-v2": latent("deepseek_v2", "DeepseekV2ForCausalLM", topk_method="greedy", n_group=1,
                          norm_topk_prob=False),
    "deepseek-v3": latent("deepseek_v3", "DeepseekV3ForCausalLM"),
    "deepseek-v32": latent("deepseek_v32", "DeepseekV32ForCausalLM", index_head_dim=16, index_n_heads=2,
                           index_topk=16),
    "glm-moe-dsa": latent("glm_moe_dsa", "GlmMoeDsaForCausalLM", index_head_dim=16, index_n_heads=2, index_topk=16,
                          head_dim=8),
    "glm4-moe-lite": latent("glm4_moe_lite", "Glm4MoeLiteForCausalLM"),
    "minicpm3": latent("minicpm3", "MiniCPM3ForCausalLM"),
    "mamba": {"model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 32, "state_size": 8,
              "num_hidden_layers": 3, "conv_kernel": 4, "vocab_size": 96, "expand": 2, "time_step_rank": 4,
              "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    "mamba2": {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "hidden_size": 64, "num_heads": 8,
               "head_dim": 16, "state_size": 8, "num_hidden_layers": 3, "conv_kernel": 4, "vocab_size": 96,
               "expand": 2, "n_groups": 1, "chunk_size": 8, "torch_dtype": "bfloat16", "bos_token_id": 1,
               "eos_token_id": 2, "pad_token_id": 0},
    "jamba": dense("jamba", "JambaForCausalLM", num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=2,
                   expert_layer_period=2, expert_layer_offset=1, num_experts=2, num_experts_per_tok=1,
                   mamba_d_conv=4, mamba_d_state=8, mamba_dt_rank=4, mamba_expand=2, use_mamba_kernels=False),
    "bamba": dense("bamba", "BambaForCausalLM", attn_layer_indices=[1], **MAMBA2),
    "granite-hybrid": dense("granitemoehybrid", "GraniteMoeHybridForCausalLM",
                            layer_types=["mamba", "attention", "mamba", "mamba"], num_local_experts=2,
                            num_experts_per_tok=1, shared_intermediate_size=32, **MAMBA2),
    "falcon-h1": dense("falcon_h1", "FalconH1ForCausalLM", num_hidden_layers=3, mamba_d_ssm=128, **MAMBA2),
    "zamba2": dense("zamba2", "Zamba2ForCausalLM", num_hidden_layers=4, num_attention_heads=4,
                    num_key_value_heads=4, layers_block_type=["mamba", "mamba", "hybrid", "mamba"],
                    hybrid_layer_ids=[2], mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_ngroups=1,
                    n_mamba_heads=8, num_mem_blocks=1, chunk_size=8, use_mem_rope=True, adapter_rank=8,
                    attention_hidden_size=128, attention_head_dim=32, mamba_headdim=16),
    "qwen3-next": dense("qwen3_next", "Qwen3NextForCausalLM", linear_num_value_heads=4, linear_num_key_heads=2,
                        linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4, num_experts=4,
                        num_experts_per_tok=2, decoder_sparse_step=1, mlp_only_layers=[],
                        shared_expert_intermediate_size=32, moe_intermediate_size=32, partial_rotary_factor=0.25,
                        full_attention_interval=4, head_dim=32),
    "lfm2": dense("lfm2", "Lfm2ForCausalLM", conv_L_cache=3, conv_bias=False, block_multiple_of=8,
                  block_auto_adjust_ff_dim=False, full_attn_idxs=[2]),
    "recurrent-gemma": dense("recurrent_gemma", "RecurrentGemmaForCausalLM", num_hidden_layers=3, lru_width=64,
                             attention_window_size=8, conv1d_width=4, num_key_value_heads=1,
                             block_types=["recurrent", "recurrent", "attention"]),
    "falcon": {"model_type": "falcon", "architectures": ["FalconForCausalLM"], "hidden_size": 64,
               "num_hidden_layers": 2, "num_attention_heads": 4, "num_kv_heads": 2, "vocab_size": 96, "alibi": False,
               "new_decoder_architecture": True, "multi_query": True, "parallel_attn": True, "bias": False,
               "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
               "max_position_embeddings": 256},
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 2, "n_head": 4,
             "n_positions": 256, "vocab_size": 96, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2},
    "gpt-neox": {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_size": 64,
                 "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 96,
                 "max_position_embeddings": 256, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2},
    "nemotron-h": dense("nemotron_h", "NemotronHForCausalLM", hybrid_override_pattern="M-M*", mamba_num_heads=8,
                        mamba_head_dim=16, ssm_state_size=8, conv_kernel=4, n_groups=1, chunk_size=8),
    "qwen3-5": dense("qwen3_5_text", "Qwen3_5ForCausalLM", linear_num_value_heads=4, linear_num_key_heads=2,
                     linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
                     full_attention_interval=4, head_dim=32),
    "olmo-hybrid": dense("olmo_hybrid", "OlmoHybridForCausalLM", linear_num_value_heads=4, linear_num_key_heads=4,
                         linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4),
    "minimax": dense("minimax", "MiniMaxForCausalLM", num_local_experts=2, num_experts_per_tok=1,
                     layer_types=["linear_attention", F, "linear_attention", F], block_size=8),
    "falcon-mamba": {"model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"], "hidden_size": 32,
                     "state_size": 8, "num_hidden_layers": 3, "conv_kernel": 4, "vocab_size": 96, "expand": 2,
                     "time_step_rank": 4, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
                     "pad_token_id": 0},
    "t5": {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 64, "d_kv": 16,
           "d_ff": 64, "num_layers": 3, "num_decoder_layers": 3, "num_heads": 4, "vocab_size": 96,
           "torch_dtype": "bfloat16", "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 0},
    "deepseek-v4": {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"], "hidden_size": 64,
                    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32,
                    "vocab_size": 96, "max_position_embeddings": 4096, "q_lora_rank": 24, "qk_rope_head_dim": 8,
                    "o_groups": 2, "o_lora_rank": 8, "sliding_window": 8, "compress_ratios": [0, 4, 128, 4],
                    "index_head_dim": 16, "index_n_heads": 2, "index_topk": 8, "hc_mult": 2,
                    "moe_intermediate_size": 32, "n_routed_experts": 4, "n_shared_experts": 1,
                    "num_experts_per_tok": 2, "num_hash_layers": 1, "rope_theta": 10000.0,
                    "compress_rope_theta": 10000.0, "torch_dtype": "bfloat16", "bos_token_id": 1,
                    "eos_token_id": 2, "pad_token_id": 0},
}
PLAIN = [(1, 30, 30), (1, 30, 43), (1, 5, 7)]
MORE = PLAIN + [(1, 8, 8), (1, 7, 8), (2, 30, 43)]
RUNS = {"llama": MORE, "mistral": MORE, "gemma2": MORE, "deepseek-v4": PLAIN + [(1, 130, 150), (1, 30, 44), (1, 32, 32)],
        "t5": [(1, 20, 1), (1, 20, 9)], "recurrent-gemma": PLAIN[:1]}
STATIC = ["llama", "mistral", "gemma2", "gemma3", "gemma3n", "llama4", "cohere2", "deepseek-v3", "phi3", "qwen2",
          "gpt-oss", "qwen3-next", "granite-hybrid"]
QUANTIZED = [(1, 30, 30, 4, 64, 128), (1, 30, 40, 4, 64, 128), (1, 30, 43, 4, 64, 8), (1, 300, 440, 4, 64, 128),
             (1, 32, 40, 2, 32, 128), (2, 30, 43, 4, 64, 128), (1, 33, 35, 4, 64, 128), (1, 31, 35, 2, 64, 128),
             (1, 32, 40, 8, 64, 128)]


def tensors(value, torch, depth=0):
    """The tensors under one layer's cache that have more than one number a sequence."""
    if isinstance(value, torch.Tensor):
        if hasattr(value, "_data") and hasattr(value, "_scale"):  # quanto: packed data, scales, shifts
            return tensors(value._data, torch) + tensors(value._scale, torch) + tensors(value._shift, torch)
        if type(value).__name__ == "PackedTensor":
            return [value._data]
        return [value] if value.dim() >= 2 else []
    if isinstance(value, dict):
        return [one for item in value.values() for one in tensors(item, torch, depth + 1)]
    if isinstance(value, (list, tuple)):
        return [one for item in value for one in tensors(item, torch, depth + 1)]
    return []


def entry(found, layers):
    """Per layer lists of tensors of a cache of any release."""
    import torch
    if isinstance(found, (tuple, list)):
        return [tensors(one, torch) for one in found]
    if hasattr(found, "self_attention_cache"):
        own, cross = entry(found.self_attention_cache, layers), entry(found.cross_attention_cache, layers)
        return [own[i] + (cross[i] if i < len(cross) else []) for i in range(len(own))]
    held = vars(found)
    if isinstance(held.get("layers"), list) and held["layers"]:
        return [tensors(vars(one), torch) for one in held["layers"]]
    out = [[] for _ in range(layers)]
    for name, value in held.items():
        if isinstance(value, torch.Tensor) and value.dim() > 2 and value.shape[0] == layers:
            for i in range(layers):
                out[i].append(value[i].clone())  # one tensor for all layers: each has its part of it
        elif isinstance(value, dict):
            for i in range(layers):
                out[i] += tensors(value.get(i), torch)
        elif isinstance(value, (list, tuple)) and len(value) <= layers:
            for i, one in enumerate(value):
                out[i] += tensors(one, torch)
    return out


def measure(version, name, batch, prompt, tokens, options):
    import torch
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM
    transformers.logging.set_verbosity_error()
    config = CONFIGS[name]
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "config.json").write_text(json.dumps(config))
        config = AutoConfig.from_pretrained(directory)
    encoder = getattr(config, "is_encoder_decoder", False)
    torch.manual_seed(1)
    model = (AutoModelForSeq2SeqLM if encoder else AutoModelForCausalLM).from_config(config).to(torch.bfloat16).eval()
    ids = torch.randint(3, 96, (batch, prompt), generator=torch.Generator().manual_seed(2))
    new = tokens if encoder else tokens - prompt + 1
    row = {"transformers": version, "model": name, "sequences": batch, "prompt": prompt, "tokens": tokens}
    if options:
        row["options"] = options
        options = json.loads(json.dumps(options))
    kept = {}
    inner = model.forward

    @functools.wraps(inner)  # generate() looks at the signature
    def forward(*args, **keys):
        out = inner(*args, **keys)
        kept["cache"] = out.get("past_key_values", None)
        if kept["cache"] is None:
            kept["cache"] = out.get("cache_params", None)
        return out

    model.forward = forward
    with torch.no_grad():
        out = model.generate(ids, max_new_tokens=new, min_new_tokens=new, do_sample=False, use_cache=True,
                             return_dict_in_generate=True, disable_compile=True, **options) \
            if "disable_compile" in dir(model.generation_config) else \
            model.generate(ids, max_new_tokens=new, min_new_tokens=new, do_sample=False, use_cache=True,
                           return_dict_in_generate=True, **options)
    found = getattr(out, "past_key_values", None)
    if found is None:
        found = kept["cache"]
    text = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    layers = getattr(text, "num_decoder_layers", None) or text.num_hidden_layers
    if found is None:
        return row | {"cache": None}
    per_layer = entry(found, layers)
    if name == "recurrent-gemma":  # states are attributes of the modules
        for i, layer in enumerate(model.model.layers):
            block = layer.temporal_block
            states = [getattr(block, "conv1d_state", None), getattr(getattr(block, "rg_lru", None), "recurrent_states",
                                                                   None)]
            per_layer[i] = per_layer[i] + [one for one in states if one is not None]
    row["cache"] = type(found).__name__
    inside = getattr(found, "self_attention_cache", found)
    row["layers"] = sorted({type(one).__name__ for one in getattr(inside, "layers", [])})
    row["bytes"] = [sum({(one.data_ptr(), one.shape): one.numel() * one.element_size()
                         for one in layer if one.numel()}.values()) for layer in per_layer]
    row["storage"] = [sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes()
                           for one in layer}.values()) for layer in per_layer]
    return row


def main():
    if sys.argv[1] == "configs":
        for name, config in CONFIGS.items():
            print(json.dumps({"id": name, "config": config}))
        return
    version, only = sys.argv[1], [name for name in sys.argv[2:] if name != "quantized"]
    for name in CONFIGS:
        if only and name not in only:
            continue
        runs = [(*run, {}) for run in RUNS.get(name, PLAIN)]
        if name in STATIC:
            runs += [(*run, {"cache_implementation": "static"}) for run in PLAIN[1:]]
            runs += [(*PLAIN[1], {"cache_implementation": kind})
                     for kind in ("sliding_window", "hybrid", "hybrid_chunked")]
        if name in ("llama", "mistral") and "quantized" in sys.argv:
            hqq = "HQQ" if [int(part) for part in version.split(".")[:2]] < [4, 54] else "hqq"
            runs += [(b, p, t, {"cache_implementation": "quantized", "cache_config": {
                "backend": backend, "nbits": bits, "q_group_size": group, "residual_length": residual}})
                for b, p, t, bits, group, residual in (QUANTIZED if name == "llama" else QUANTIZED[1:2])
                for backend in ("quanto", hqq)]
        for batch, prompt, tokens, options in runs:
            try:
                print(json.dumps(measure(version, name, batch, prompt, tokens, options)), flush=True)
            except Exception as error:
                text = str(error).strip().split("\n")
                print(version, name, batch, prompt, tokens, options, type(error).__name__, text[0][:200], file=sys.stderr)
                if "does not recognize this architecture" in str(error) or "model type" in str(error):
                    break


if __name__ == "__main__":
    main()
