"""What MLX-LM's own caches hold: real releases, tiny random models on the CPU.

    pip install 'mlx[cpu]' transformers
    pip install --no-deps --target DIR mlx-lm==VERSION
    PYTHONPATH=DIR python make_mlx.py VERSION [long] [MODEL...] >> rows.jsonl      one line a run
    PYTHONPATH=DIR python make_mlx.py VERSION batch >> rows.jsonl                  batches of the server, 0.31.2 and later
    python make_mlx.py configs > configs.jsonl                   {"id", "config"} of every model used

Mixtures of experts are float32: MLX's CPU backend has no grouped product in bfloat16.
tests/data/engines/mlx-measured.jsonl is the configs followed by the rows of every release. A row is one generation by
the release's own generate_step: "layers" has the bytes of each entry of its cache list after `tokens` tokens, and
"peak" the most that all of them held after any pass until then.
"""
import importlib
import json
import sys

DENSE = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 96, "rms_norm_eps": 1e-05,
         "max_position_embeddings": 8192, "rope_theta": 10000.0, "torch_dtype": "bfloat16",
         "tie_word_embeddings": False}
S, F = "sliding_attention", "full_attention"


def dense(kind, architecture, **keys):
    return {"model_type": kind, "architectures": [architecture]} | DENSE | keys


MLA = {"kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
       "num_key_value_heads": 4, "num_hidden_layers": 3, "moe_intermediate_size": 32, "n_routed_experts": 4,
       "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "torch_dtype": "float32",
       "routed_scaling_factor": 1.0, "norm_topk_prob": True, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
       "moe_layer_freq": 1, "attention_bias": False, "rope_scaling": None}
MLA_KEYS = {key: value for key, value in DENSE.items() if key != "head_dim"}


MOE = {"torch_dtype": "float32"}


def latent(kind, architecture, **keys):
    return {"model_type": kind, "architectures": [architecture]} | MLA_KEYS | MLA | keys


CONFIGS = {
    "llama": dense("llama", "LlamaForCausalLM"),
    "mistral-window": dense("mistral", "MistralForCausalLM", sliding_window=100),
    "mixtral-window": dense("mixtral", "MixtralForCausalLM", sliding_window=100, num_local_experts=2,
                            num_experts_per_tok=1, head_dim=16, **MOE),
    "ministral3": dense("ministral3", "Ministral3ForCausalLM", sliding_window=100, layer_types=[S, F, S, F],
                        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                         "llama_4_scaling_beta": 0.1,
                                         "original_max_position_embeddings": 8192}),
    "qwen2-window": dense("qwen2", "Qwen2ForCausalLM", sliding_window=100, use_sliding_window=True,
                          max_window_layers=2, head_dim=16),
    "qwen3": dense("qwen3", "Qwen3ForCausalLM"),
    "phi3-window": dense("phi3", "Phi3ForCausalLM", sliding_window=100, head_dim=16, rope_scaling=None,
                         original_max_position_embeddings=8192),
    "starcoder2-window": dense("starcoder2", "Starcoder2ForCausalLM", sliding_window=100, norm_epsilon=1e-5,
                               head_dim=16),
    "gemma2": dense("gemma2", "Gemma2ForCausalLM", sliding_window=100, attn_logit_softcapping=50.0,
                    final_logit_softcapping=30.0, query_pre_attn_scalar=64),
    "gemma3": dense("gemma3_text", "Gemma3ForCausalLM", sliding_window=100, sliding_window_pattern=3,
                    num_hidden_layers=7, query_pre_attn_scalar=64, rope_local_base_freq=10000.0),
    "gemma3-wide": dense("gemma3_text", "Gemma3ForCausalLM", sliding_window=600, sliding_window_pattern=2,
                         num_hidden_layers=2, query_pre_attn_scalar=64, rope_local_base_freq=10000.0),
    "gpt-oss": dense("gpt_oss", "GptOssForCausalLM", sliding_window=100, layer_types=[S, F, S, F],
                     num_local_experts=4, num_experts_per_tok=2, rope_scaling=None, **MOE),
    "cohere2": dense("cohere2", "Cohere2ForCausalLM", sliding_window=100, sliding_window_pattern=4,
                     num_hidden_layers=5, head_dim=16, layer_norm_eps=1e-5, logit_scale=1.0),
    "exaone4": dense("exaone4", "Exaone4ForCausalLM", sliding_window=100, sliding_window_pattern="LLLG",
                     num_hidden_layers=5, rope_scaling=None, layer_types=[S, S, S, F, S]),
    "olmo3": dense("olmo3", "Olmo3ForCausalLM", sliding_window=100, layer_types=[S, S, S, F]),
    "afmoe": dense("afmoe", "AfmoeForCausalLM", sliding_window=100, layer_types=[S, S, S, F], num_experts=2,
                   num_experts_per_tok=1, num_shared_experts=1, num_dense_layers=1, moe_intermediate_size=32,
                   global_attn_every_n_layers=4, **MOE),
    "smollm3": dense("smollm3", "SmolLM3ForCausalLM", head_dim=16, no_rope_layer_interval=4),
    "llama4": {"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"],
               "torch_dtype": "float32", "text_config": dense("llama4_text", "Llama4ForCausalLM", attention_chunk_size=300,
                                    num_hidden_layers=5, intermediate_size_mlp=64, num_local_experts=2,
                                    num_experts_per_tok=1, interleave_moe_layer_step=2, use_qk_norm=True,
                                    attention_bias=False, rope_scaling=None, **MOE)},
    "deepseek-v2": latent("deepseek_v2", "DeepseekV2ForCausalLM", topk_method="greedy", scoring_func="softmax",
                          n_group=1, rope_scaling={"type": "yarn", "factor": 2, "mscale": 1, "mscale_all_dim": 1,
                                                   "original_max_position_embeddings": 4096, "beta_fast": 32,
                                                   "beta_slow": 1}),
    "deepseek-v3": latent("deepseek_v3", "DeepseekV3ForCausalLM"),
    "deepseek-v32": latent("deepseek_v32", "DeepseekV32ForCausalLM", index_head_dim=16, index_n_heads=2,
                           index_topk=64),
    "glm4-moe-lite": latent("glm4_moe_lite", "Glm4MoeLiteForCausalLM", partial_rotary_factor=1.0),
    "minicpm3": latent("minicpm3", "MiniCPM3ForCausalLM", dim_model_base=64, scale_depth=1.0, scale_emb=1.0,
                       rope_scaling={"type": "longrope", "long_factor": [1.0] * 4, "short_factor": [1.0] * 4,
                                     "original_max_position_embeddings": 8192}),
    "youtu": latent("youtu_llm", "YoutuForCausalLM"),
    "mamba": {"model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 32,
              "intermediate_size": 64, "state_size": 8, "num_hidden_layers": 3, "conv_kernel": 4, "vocab_size": 96,
              "use_bias": False, "use_conv_bias": True, "time_step_rank": 4, "expand": 2,
              "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True, "torch_dtype": "bfloat16"},
    "mamba2": {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "hidden_size": 64, "num_heads": 8,
               "head_dim": 16, "state_size": 8, "num_hidden_layers": 3, "conv_kernel": 4, "vocab_size": 96,
               "expand": 2, "n_groups": 1, "use_bias": False, "use_conv_bias": True, "layer_norm_epsilon": 1e-5,
               "time_step_limit": [0.0, 100.0], "time_step_rank": 4, "chunk_size": 8, "tie_word_embeddings": True,
               "intermediate_size": 128, "max_position_embeddings": 8192, "rms_norm": True, "ssm_state_size": 8,
               "torch_dtype": "bfloat16"},
    "jamba": dense("jamba", "JambaForCausalLM", num_hidden_layers=5, attn_layer_period=5, attn_layer_offset=2,
                   expert_layer_period=2, expert_layer_offset=1, num_experts=2, num_experts_per_tok=1,
                   mamba_d_conv=4, mamba_d_state=8, mamba_dt_rank=4, mamba_expand=2, mamba_conv_bias=True,
                   mamba_proj_bias=False, head_dim=16, **MOE),
    "granite-hybrid": dense("granitemoehybrid", "GraniteMoeHybridForCausalLM", head_dim=16,
                            layer_types=["mamba", "attention", "mamba", "mamba"], mamba_n_heads=8,
                            mamba_d_head=16, mamba_d_state=8, mamba_d_conv=4, mamba_n_groups=1, mamba_expand=2,
                            mamba_conv_bias=True, mamba_proj_bias=False, num_local_experts=2,
                            num_experts_per_tok=1, shared_intermediate_size=32, embedding_multiplier=1.0,
                            attention_multiplier=1.0, logits_scaling=1.0, residual_multiplier=1.0,
                            attention_bias=False, position_embedding_type="rope", mamba_chunk_size=8, **MOE),
    "nemotron-h": dense("nemotron_h", "NemotronHForCausalLM", hybrid_override_pattern="M-M*", mamba_num_heads=8,
                        mamba_head_dim=16, ssm_state_size=8, conv_kernel=4, n_groups=1, time_step_limit=[0, 100],
                        mamba_proj_bias=False, use_conv_bias=True, use_bias=False, mlp_bias=False,
                        attention_bias=False, layer_norm_epsilon=1e-5, mlp_hidden_act="relu2", head_dim=16,
                        mamba_hidden_act="silu", residual_in_fp32=False, chunk_size=8),
    "falcon-h1": dense("falcon_h1", "FalconH1ForCausalLM", num_hidden_layers=3, mamba_d_ssm=128, mamba_n_heads=8,
                       mamba_d_head=16, mamba_d_state=8, mamba_d_conv=4, mamba_n_groups=1, mamba_expand=2,
                       mamba_conv_bias=True, mamba_proj_bias=False, mamba_rms_norm=False,
                       mamba_norm_before_gate=True, mamba_chunk_size=8, head_dim=16, attention_in_multiplier=1.0,
                       attention_out_multiplier=1.0, embedding_multiplier=1.0, key_multiplier=1.0,
                       lm_head_multiplier=1.0, mlp_multipliers=[1.0, 1.0], ssm_in_multiplier=1.0,
                       ssm_multipliers=[1.0] * 5, ssm_out_multiplier=1.0, attention_bias=False, mlp_bias=False,
                       projectors_bias=False),
    "qwen3-next": dense("qwen3_next", "Qwen3NextForCausalLM", linear_num_value_heads=4, linear_num_key_heads=2,
                        linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
                        num_experts=4, num_experts_per_tok=2, decoder_sparse_step=1, mlp_only_layers=[],
                        shared_expert_intermediate_size=32, moe_intermediate_size=32, partial_rotary_factor=0.25,
                        norm_topk_prob=True, full_attention_interval=4, head_dim=32, rope_scaling=None,
                        **MOE),
    "qwen3-5": {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"],
                "torch_dtype": "bfloat16",
                "text_config": dense("qwen3_5_text", "Qwen3_5ForCausalLM", linear_num_value_heads=4,
                                     linear_num_key_heads=2, linear_key_head_dim=16, linear_value_head_dim=16,
                                     linear_conv_kernel_dim=4, full_attention_interval=4, head_dim=32,
                                     rope_parameters={"rope_type": "default", "type": "default",
                                                      "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
                                                      "mrope_section": [1, 1, 2]})},
    "kimi-linear": dense("kimi_linear", "KimiLinearForCausalLM", kv_lora_rank=32, qk_nope_head_dim=16,
                         qk_rope_head_dim=8, v_head_dim=16, head_dim=24, num_key_value_heads=4, mla_use_nope=True,
                         linear_attn_config={"full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 4,
                                             "head_dim": 16, "short_conv_kernel_size": 4},
                         num_experts=4, num_experts_per_token=2, num_shared_experts=1, first_k_dense_replace=1,
                         moe_intermediate_size=32, moe_router_activation_func="sigmoid", moe_renormalize=True,
                         routed_scaling_factor=1.0, num_expert_group=1, topk_group=1, moe_layer_freq=1,
                         use_grouped_topk=True, model_max_length=8192, rope_scaling=None, q_lora_rank=None,
                         num_experts_per_tok=2, **MOE),
    "lfm2": dense("lfm2", "Lfm2ForCausalLM", head_dim=16, conv_L_cache=3, conv_bias=False, block_dim=64,
                  block_ff_dim=64, block_multiple_of=8, block_ffn_dim_multiplier=1.0, norm_eps=1e-5,
                  block_auto_adjust_ff_dim=False, full_attn_idxs=[2], layer_types=["conv", "conv", F, "conv"]),
    "recurrent-gemma": dense("recurrent_gemma", "RecurrentGemmaForCausalLM", head_dim=16, lru_width=64,
                             attention_window_size=100, conv1d_width=4, logits_soft_cap=30.0,
                             block_types=["recurrent", "recurrent", "attention"], num_hidden_layers=3,
                             attention_bias=False, embeddings_scale_by_sqrt_dim=True, num_key_value_heads=1),
}
# (prompt, tokens fed in all, prefill step or None, flags)
GROWTH = [(1, 1, None, {}), (1, 300, None, {}), (256, 256, None, {}), (257, 257, None, {}), (1000, 1024, None, {}),
          (2049, 2049, None, {}), (4096, 4196, None, {}), (5000, 5200, None, {}), (300, 420, 128, {}),
          (700, 1100, 100, {})]
QUANTIZED = [(600, 650, None, {"kv_bits": 8, "kv_group_size": 64, "quantized_kv_start": 0}),
             (600, 900, None, {"kv_bits": 4, "kv_group_size": 64, "quantized_kv_start": 0}),
             (600, 900, None, {"kv_bits": 4, "kv_group_size": 32, "quantized_kv_start": 700}),
             (100, 130, None, {"kv_bits": 4, "kv_group_size": 64, "quantized_kv_start": 120}),
             (600, 650, None, {"kv_bits": 8, "kv_group_size": 64, "quantized_kv_start": 5000})]
ROTATING = [(700, 1100, None, {"max_kv_size": 512}), (100, 700, None, {"max_kv_size": 512}),
            (3000, 3100, None, {"max_kv_size": 2000})]
RUNS = {"llama": GROWTH + QUANTIZED + ROTATING, "gemma3": GROWTH + QUANTIZED[:2], "gemma3-wide": GROWTH,
        "llama4": GROWTH, "qwen3": QUANTIZED[:1] + ROTATING[:1], "gemma2": QUANTIZED[:1] + GROWTH[4:5]}
BATCHES = [(name, sequences, prompt, tokens) for name in ("llama", "gemma3", "gemma3-wide", "falcon-h1")
           for sequences, prompt, tokens in ((1, 1000, 1024), (3, 1000, 1024), (2, 300, 330))]
OTHERS = [(300, 310, 128, {}), (1000, 1024, None, {"max_kv_size": 512})]


def make_model(config, mx):
    import mlx.nn as nn
    module = importlib.import_module("mlx_lm.models." + {"mistral": "llama", "phi-msft": "phixtral"}.get(
        config["model_type"], config["model_type"]))
    mx.random.seed(1)
    model = module.Model(module.ModelArgs.from_dict(config))
    model.set_dtype({"bfloat16": mx.bfloat16, "float32": mx.float32}[config.get("torch_dtype", "bfloat16")])

    class Spy(nn.Module):
        """The model, and what its caches held before and after each pass."""

        def __init__(self):
            super().__init__()
            self.inner, self.before, self.after = model, {}, []
            if hasattr(model, "make_cache"):
                self.make_cache = model.make_cache
            self.seen = 0

        @property
        def layers(self):
            return self.inner.layers

        def __call__(self, tokens, cache=None, **others):
            self.before[self.seen] = [cache_bytes(one) for one in cache]
            out = self.inner(tokens, cache=cache, **others)
            self.seen += tokens.shape[1]
            self.after.append((self.seen, [cache_bytes(one) for one in cache]))
            return out

    return Spy()


def cache_bytes(cache):
    import mlx.core as mx
    if cache is None:
        return 0
    if isinstance(cache, mx.array):
        return cache.nbytes
    if isinstance(cache, (list, tuple)):
        return sum(cache_bytes(one) for one in cache)
    held = vars(cache)
    return sum(cache_bytes(held.get(name)) for name in ("keys", "values", "cache", "caches", "_cache"))


def measure(version, name, prompt, tokens, step, flags):
    import mlx.core as mx
    try:
        from mlx_lm.generate import generate_step
    except ImportError:
        from mlx_lm.utils import generate_step
    from mlx_lm.models.cache import make_prompt_cache
    row = {"mlx_lm": version, "model": name, "prompt": prompt, "tokens": tokens} | flags
    if step:
        row["prefill_step_size"] = step
    model = make_model(CONFIGS[name], mx)
    cache = make_prompt_cache(model, flags.get("max_kv_size"))
    options = {key: value for key, value in flags.items() if key != "max_kv_size"}
    if step:
        options["prefill_step_size"] = step
    ids = mx.random.randint(3, 96, (prompt,))
    try:
        steps = generate_step(ids, model, prompt_cache=cache, max_tokens=tokens - prompt + 2, **options)
    except TypeError:
        steps = generate_step(ids, model, prompt_cache=cache, **options)
    try:
        for _ in steps:
            if model.seen > tokens:
                break
        if tokens not in model.before:
            raise RuntimeError("not reached")
    except NotImplementedError as error:
        return row | {"refused": str(error)}
    except TypeError as error:  # an attention that takes no quantized keys
        return row | {"refused": "TypeError: " + str(error).split("\n")[0]}
    row["classes"] = [type(one).__name__ for one in cache]
    row["layers"] = model.before[tokens]
    row["peak"] = max(sum(held) for seen, held in model.after if seen <= tokens)
    return row


def measure_batch(version, name, sequences, prompt, tokens):
    """A batch of the server's generator: what all of it holds, and what the server keeps of one finished sequence."""
    import mlx.core as mx
    from mlx_lm.generate import BatchGenerator
    generator = BatchGenerator(make_model(CONFIGS[name], mx).inner, max_tokens=tokens - prompt + 5)
    ids = generator.insert([mx.random.randint(3, 96, (prompt,)).tolist() for _ in range(sequences)])
    for _ in range(tokens - prompt):
        generator.next_generated()
    kept = generator.extract_cache(ids)[ids[0]][0]
    held = generator._generation_batch.prompt_cache
    return {"mlx_lm": version, "model": name, "sequences": sequences, "prompt": prompt, "tokens": tokens,
            "classes": [type(one).__name__ for one in held], "layers": [one.nbytes for one in held],
            "kept": sum(one.nbytes for one in kept)}


def main():
    if sys.argv[1] == "configs":
        for name, config in CONFIGS.items():
            print(json.dumps({"id": name, "config": config}))
        return
    only = [name for name in sys.argv[2:] if name not in ("long", "batch")]
    long = "long" in sys.argv
    if "batch" in sys.argv:
        for run in BATCHES:
            print(json.dumps(measure_batch(sys.argv[1], *run)), flush=True)
        return
    for name in CONFIGS:
        if only and name not in only:
            continue
        for prompt, tokens, step, flags in RUNS.get(name, OTHERS):
            if prompt > 2500 and not long:
                continue
            try:
                print(json.dumps(measure(sys.argv[1], name, prompt, tokens, step, flags)), flush=True)
            except ModuleNotFoundError:
                break
            except Exception as error:
                print(sys.argv[1], name, prompt, flags, type(error).__name__, str(error)[:160], file=sys.stderr)


if __name__ == "__main__":
    main()
