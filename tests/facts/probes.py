"""Six probe models on which calculators disagree, in each JSON shape in which they were published."""
from formulas import Layer, need, words
from harness import Failed, expect, expect_need

GIB = 1 << 30
CONTEXT = 131072

GEMMA3_27B = {"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
              "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024}
GEMMA3_TYPES = ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(62)]


def gemma3(**text):
    return {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "torch_dtype": "bfloat16",
            "text_config": dict(GEMMA3_27B, **text)}


PHI4_FLASH = {"architectures": ["Phi4FlashForCausalLM"], "model_type": "phi4flash", "hidden_size": 2560,
              "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 40, "num_key_value_heads": 20,
              "mb_per_layer": 2, "sliding_window": 512, "max_position_embeddings": 262144, "torch_dtype": "bfloat16"}

DEEPSEEK_V3 = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
               "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
               "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
               "num_nextn_predict_layers": 1, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
               "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                                       "weight_block_size": [128, 128]}}

QWEN3_NEXT = {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 2048,
              "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
              "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
              "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
              "max_position_embeddings": 262144, "torch_dtype": "bfloat16"}
QWEN3_NEXT_V5 = {k: v for k, v in QWEN3_NEXT.items() if k not in ("full_attention_interval", "torch_dtype")}
QWEN3_NEXT_V5.update(dtype="bfloat16", layer_types=["linear_attention" if (i + 1) % 4 else "full_attention" for i in range(48)])

GPT_OSS = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36,
           "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128,
           "initial_context_length": 4096, "max_position_embeddings": 131072,
           "layer_types": ["full_attention" if i % 2 else "sliding_attention" for i in range(36)],
           "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}}

PHI4_MINI = {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32,
             "num_attention_heads": 24, "num_key_value_heads": 8, "partial_rotary_factor": 0.75, "sliding_window": 262144,
             "max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "full_attn_mod": 1,
             "interpolate_factor": 1, "torch_dtype": "bfloat16",
             "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config", "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}}

# 10 full and 52 windows of 1024, 16 heads of 128
GEMMA = [Layer("F", ("grow", 2 * 16 * 128))] * 10 + [Layer("S", ("window", 1024, 2 * 16 * 128))] * 52
# 9 Mamba-1 (3 + 16) x 5120 in bf16, 8 windows of 512, one full, 14 that keep nothing; 20 heads of 64
FLASH = [Layer("R", ("fixed", (3 + 16) * 5120 * 2))] * 9 + [Layer("S", ("window", 512, 2 * 20 * 64))] * 8 + \
        [Layer("F", ("grow", 2 * 20 * 64))] + [Layer("X")] * 14
# 61 latent rows of 512 + 64, whatever the tensor parallelism; the MTP layer is not counted
DEEPSEEK = [Layer("M", ("grow", 512 + 64))] * 61
# 12 full of 2 heads of 256, 36 gated delta nets: 3 columns of 2 x 16 x 128 + 32 x 128 in bf16 + 32 x 128 x 128 in fp32.
# With the recurrent state in bf16 the sum is 3.04 GiB; the table's 3.07 is with fp32.
QWEN = [Layer("F", ("grow", 2 * 2 * 256))] * 12 + \
       [Layer("R", ("fixed", 3 * (2 * 16 * 128 + 32 * 128) * 2 + 32 * 128 * 128 * 4))] * 36
OSS = [Layer("F", ("grow", 2 * 8 * 64))] * 18 + [Layer("S", ("window", 128, 2 * 8 * 64))] * 18
MINI = [Layer("F", ("grow", 2 * 8 * 128))] * 32

PROBES = [  # name, the table's GiB with its digits, GiB of the naive count (its layers all full), the formula, the shapes
    ("Gemma-3-27B", "10.41", 62, GEMMA, [
        ("bare", gemma3()),
        ("sliding_window_pattern", gemma3(sliding_window_pattern=6)),
        ("_sliding_window_pattern + layer_types", gemma3(_sliding_window_pattern=6, layer_types=GEMMA3_TYPES)),
        ("flat gemma3_text", dict(GEMMA3_27B, architectures=["Gemma3ForCausalLM"], torch_dtype="bfloat16"))]),
    ("Phi-4-mini-flash", "0.65", 20, FLASH, [
        ("as published", PHI4_FLASH),
        ("sliding_window saved as the list that its class makes of it",
         dict(PHI4_FLASH, sliding_window=[512 if i < 16 and i % 2 else None for i in range(32)]))]),
    ("DeepSeek-V3", "8.58", None, DEEPSEEK, [
        ("as published", DEEPSEEK_V3),
        ("without num_nextn_predict_layers and quantization",
         {k: v for k, v in DEEPSEEK_V3.items() if k not in ("num_nextn_predict_layers", "quantization_config")})]),
    ("Qwen3-Next-80B", "3.07", 12, QWEN, [("as published", QWEN3_NEXT), ("layer_types instead of the interval", QWEN3_NEXT_V5)]),
    ("gpt-oss-120b", "4.504", 9, OSS, [
        ("as published", GPT_OSS),
        ("without layer_types", {k: v for k, v in GPT_OSS.items() if k != "layer_types"})]),
    ("Phi-4-mini-instruct", "16.00", 16, MINI, [("as published", PHI4_MINI)]),
]


def run(h):
    for name, table, naive, layers, shapes in PROBES:
        for shape, config in shapes:
            h.case("probe %s, %s: exact bytes" % (name, shape), expect_need, h, config, layers, CONTEXT, False)

            def rounded(config=config, table=table, layers=layers):
                got = h.plan(config, CONTEXT)["bytes"]["need"] / GIB
                digits = max(3, len(table.replace(".", "").lstrip("0")))
                if not (abs(got - float(table)) <= 0.5 * 10 ** -len(table.split(".")[1]) + 1e-9):
                    raise Failed("need at %d tokens: the table says %s GiB, got %.*g GiB\nterms: %s = %.*g GiB" % (
                        CONTEXT, table, digits + 1, got, words(layers), digits + 1, need(layers, CONTEXT) / GIB))
            h.case("probe %s, %s: GiB as in the table" % (name, shape), rounded)

            def counted(config=config, naive=naive):
                expect("naive", naive * GIB, h.plan(config, CONTEXT)["bytes"]["naive"], "every layer as one full-attention layer")
            if naive:
                h.case("probe %s, %s: naive" % (name, shape), counted)
