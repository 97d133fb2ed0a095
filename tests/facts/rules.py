"""Rules that the check vectors leave out, and the sizes of states. Source: the classes named in formulas.py."""
from formulas import Layer, mamba1, mamba2
from harness import expect, letters
from traps import MIMO_V2
from statements import (BF16, F, cache, kinds, model, need, of, pattern, says, state_bytes, tests, types)


# ---- rules that the vectors leave out -------------------------------------------------------------

def run(h):
    layers(h)
    states(h)


def layers(h):
    limit = dict(max_position_embeddings=131072)
    tests(h, "rule", [
        ("afmoe", "class rule", of("afmoe", num_hidden_layers=8), pattern("S3 F1 S3 F1")),
        ("cohere2", "class rule", of("cohere2", num_hidden_layers=9), pattern("S3 F1 S3 F1 S1")),
        ("granite_swa", "full first", of("granite_swa", num_hidden_layers=6), pattern("F1 S3 F1 S1")),
        ("muse_glimmer_text", "counted from the last layer", of("muse_glimmer_text", num_hidden_layers=6), pattern("S1 F1 S3 F1")),
        ("dots1 max_window_layers", "as qwen2 without the switch", of("dots1", num_hidden_layers=4, max_window_layers=2,
         sliding_window=1024, max_position_embeddings=32768), pattern("F2 S2")),
        ("smollm3 off", "class rule", of("smollm3", num_hidden_layers=8, sliding_window=4096), pattern("F8")),
        ("mixtral absent", "null by class", of("mixtral", num_hidden_layers=4), pattern("F4")),
        ("starcoder2 window", "all layers", of("starcoder2", num_hidden_layers=4, sliding_window=2048, **limit), pattern("S4")),
        ("phimoe window", "all layers", of("phimoe", num_hidden_layers=4, sliding_window=2047, **limit), pattern("S4")),
        ("kyutai_speech_to_text", "all layers, 375 of 750", of("kyutai_speech_to_text"), pattern("S48"), cache(0, window=375)),
        ("moshi", "3000 of 3000: inert", of("moshi"), pattern("F32"), cache(0, window_inert=True)),
        ("voxtral_realtime_text", "absent: 4096", of("voxtral_realtime_text", num_hidden_layers=4), pattern("S4")),
        ("minimax class default", "even layers full", of("minimax", num_hidden_layers=4), pattern("F1 R1 F1 R1")),
        ("minimax attn_type_list", "0 lightning, 1 softmax", of("minimax", num_hidden_layers=4, attn_type_list=[0, 0, 0, 1]), pattern("R3 F1")),
        ("minimax_text_01 without a list", "all softmax", of("minimax_text_01", architectures=["MiniMaxText01ForCausalLM"], hidden_size=6144,
         num_hidden_layers=3, num_attention_heads=64, num_key_value_heads=8, head_dim=128, **limit), pattern("F3")),
        ("olmo_hybrid", "i mod 4 == 3 full", of("olmo_hybrid", num_hidden_layers=8), pattern("R3 F1 R3 F1")),
        ("olmo_hybrid short", "none full: the last is", of("olmo_hybrid", num_hidden_layers=3), pattern("R2 F1")),
        ("qwen3_next interval 2", "class rule", of("qwen3_next", num_hidden_layers=5, full_attention_interval=2), pattern("R1 F1 R1 F1 R1")),
        ("qwen4_exp_text", "class rule", of("qwen4_exp_text", hidden_size=2048, num_attention_heads=16, num_hidden_layers=8, **limit),
         pattern("R3 F1 R3 F1", also=("H3 F1 H3 F1",))),
        ("kimi_linear without lists", "B.2 says MLA where (i+1) mod 4 == 0; Transformers 5.17 where i and i mod 4 == 0",
         of("kimi_linear", num_hidden_layers=8), pattern("R3 M1 R3 M1", also=("R4 M1 R3",))),
        ("glm5_next_text", "i mod 4 == 3 sparse MLA, else KDA", of("glm5_next_text", num_hidden_layers=8), pattern("R3 I1 R3 I1")),
        ("glm5_next_text full_attention", "rewritten to sparse MLA", of("glm5_next_text", num_hidden_layers=4, layer_types=types("LLFF")), pattern("R2 I2")),
        ("hy_v4", "an index at 0 and where (i-1) mod 4 == 0", of("hy_v4", num_hidden_layers=6),
         pattern("I2 M3 I1")),
        ("bailing_moe_linear", "(i+1) mod g == 0 or the tail", of("bailing_moe_linear", num_hidden_layers=10, layer_group_size=4,
         hidden_size=2048, num_attention_heads=16, num_key_value_heads=4, head_dim=128, **limit), pattern("R3 F1 R3 F3")),
        ("bailing_hybrid V2.5", "MLA every g-th", of("bailing_hybrid", architectures=["BailingMoeV2_5ForCausalLM"], num_hidden_layers=10,
         layer_group_size=4, hidden_size=2048, num_attention_heads=16, head_dim=128, **limit), pattern("R3 M1 R3 M1 R2")),
        ("bailing_hybrid V3", "and the tail", of("bailing_hybrid", architectures=["BailingMoeV3ForCausalLM"], num_hidden_layers=10,
         layer_group_size=4, hidden_size=2048, num_attention_heads=16, head_dim=128, **limit), pattern("R3 M1 R3 M3")),
        ("jamba offset", "class rule", of("jamba", num_hidden_layers=6, attn_layer_period=3, attn_layer_offset=1), pattern("R1 F1 R2 F1 R1")),
        ("bamba null", "all Mamba-2", of("bamba", num_hidden_layers=4), pattern("R4")),
        ("zamba2 default", "m, (5m, h) x 7, 4m, h, 3m, h, 2m", of("zamba2"), pattern("R6 H1 " + "R5 H1 " * 6 + "R4 H1 R3 H1 R2")),
        ("plamo2", "mamba where i mod 2 != 1; full only in full_attention_idx", of("plamo2", num_hidden_layers=4, hidden_size=4096,
         num_attention_heads=32, full_attention_idx=[3], max_position_embeddings=10485760), pattern("R1 S1 R1 F1"), cache(1, window=2048)),
        ("plamo3 list of windows", "null is full", of("plamo3", num_hidden_layers=4, hidden_size=2048, num_attention_heads=16,
         num_key_value_heads=4, head_dim=128, sliding_window=[2048, 2048, 2048, None], **limit), pattern("S3 F1")),
        ("lfm2 without full_attn_idxs", "all full", of("lfm2", num_hidden_layers=4), pattern("F4")),
        ("inkling_text local_layer_ids", "0-based", of("inkling_text", num_hidden_layers=4, local_layer_ids=[0, 3]), pattern("h1 H2 h1")),
        ("mimo_v2", "1 slides, 0 is full", dict(MIMO_V2, model_type="mimo_v2", architectures=["MiMoV2ForCausalLM"]), pattern("F1 S2 F1")),
        ("gemma4_assistant", "every layer reads the target's cache", of("gemma4_assistant"),
         lambda h, config, why: expect("letters", {"X"}, set(letters(h.show(config)["pattern"])), why)),
        ("minimax_m3 sparse", "full K and V, and an index key where sparse_attention_freq[i]", of("minimax_m3_vl_text", num_hidden_layers=3,
         sparse_attention_config={"sparse_attention_freq": [0, 1, 1], "sparse_index_dim": 128}, **BF16),
         need([Layer("F", ("grow", 1024))] + [Layer("F", ("grow", 1152))] * 2)),
        ("deepseek_v32", "every layer latent and index", of("deepseek_v32", num_hidden_layers=2, **BF16), need([Layer("I", ("grow", 704))] * 2)),
        ("axk2", "128 + 32 + 128", of("axk2", num_hidden_layers=2, **BF16), need([Layer("I", ("grow", 288))] * 2)),
        ("minicpm3", "256 + 32", of("minicpm3", num_hidden_layers=2, **BF16), need([Layer("M", ("grow", 288))] * 2)),
        ("mistral4", "256 + 64; head_dim is a decoy", of("mistral4", num_hidden_layers=2, **BF16), need([Layer("M", ("grow", 320))] * 2)),
        ("t5gemma decoder", "even windows, odd full, each with a cross cache", of("t5gemma"), kinds(0, "sliding", "cross"), kinds(1, "full", "cross")),
        ("t5gemma2 decoder", "(i+1) mod 6 == 0 full", of("t5gemma2"), kinds(4, "sliding", "cross"), kinds(5, "full", "cross")),
    ])


# ---- states (K - 1 columns) -----------------------------------------------------------------

def states(h):
    xlstm = 8 * 256 * 512 + 8 * 256 + 8
    tests(h, "state", [
        ("mamba", "(K-1) x d + d x N", of("mamba", **BF16), state_bytes(32 * mamba1(1536, 4, 16, 2)[1])),
        ("mamba2", "(K-1) x (d + 2 G N) + H P N", of("mamba2", **BF16), state_bytes(64 * mamba2(128, 64, 128, 8, 4, 2, 2)[1])),
        ("jamba", "d = mamba_expand x hidden", of("jamba", **BF16), state_bytes(28 * mamba1(8192, 4, 16, 2)[1])),
        ("bamba", "128 heads of 64, N 256, 1 group", of("bamba", **BF16), state_bytes(32 * mamba2(128, 64, 256, 1, 4, 2, 2)[1])),
        ("granitemoehybrid", "128 heads of 64, N 256, 1 group", of("granitemoehybrid", **BF16),
         state_bytes(32 * mamba2(128, 64, 256, 1, 4, 2, 2)[1])),
        ("falcon_h1 null mamba_d_ssm", "mamba_expand x hidden", of("falcon_h1", num_hidden_layers=1, hidden_size=512, mamba_d_ssm=None,
         mamba_expand=2, mamba_n_heads=16, mamba_d_head=64, mamba_d_state=64, mamba_n_groups=1, **BF16),
         state_bytes(mamba2(16, 64, 64, 1, 4, 2, 2)[1])),
        ("zamba", "Mamba-1 on all 76 layers, hybrid ones too", of("zamba", **BF16), state_bytes(76 * mamba1(2 * 3712, 4, 16, 2)[1])),
        ("zamba KV", "13 hybrid layers of 16 heads of 464", of("zamba", **BF16), cache(2, kv_heads=16, k_dim=464)),
        ("zamba2", "8 heads of 640, N 64, 1 group", of("zamba2", **BF16), state_bytes(54 * mamba2(8, 640, 64, 1, 4, 2, 2)[1])),
        ("nemotron_h", "SSM state float32 by class", of("nemotron_h", hybrid_override_pattern="M", **BF16),
         state_bytes(mamba2(128, 64, 128, 8, 4, 2, 4)[1])),
        ("qwen3_next", "recurrent state fp32 (3.07 GiB of the probe)", of("qwen3_next", **BF16),
         state_bytes(36 * (3 * 8192 * 2 + 32 * 128 * 128 * 4))),
        ("olmo_hybrid", "30 heads, keys 96, values 192; the dtype is open", of("olmo_hybrid", num_hidden_layers=4, **BF16),
         state_bytes(*[3 * (3 * (2 * 30 * 96 + 30 * 192) * 2 + 30 * 96 * 192 * b) for b in (2, 4)])),
        ("minimax lightning", "H x D x D in the model's dtype", of("minimax", num_hidden_layers=2, **BF16), state_bytes(32 * 128 * 128 * 2)),
        ("lfm2 short convolution", "(K-1) x hidden", of("lfm2", num_hidden_layers=2, full_attn_idxs=[1], hidden_size=2560, conv_L_cache=3,
         **BF16), state_bytes(2 * 2560 * 2)),
        ("recurrent_gemma", "lru_width in fp32 + (K-1) x hidden", of("recurrent_gemma", **BF16), state_bytes(18 * (2560 * 4 + 3 * 2560 * 2))),
        ("rwkv", "2 x hidden + 3 x attention_hidden_size in fp32", of("rwkv", **BF16), pattern("R32"), state_bytes(32 * (2 * 4096 * 2 + 3 * 4096 * 4))),
        ("xlstm", "C 8 x 256 x 512, n 8 x 256, m 8; the dtype is open", of("xlstm", **BF16), pattern("R32"),
         state_bytes(32 * xlstm * 2, 32 * xlstm * 4)),
        ("zaya", "convolution (8 + 2) x 128 x 2 + delayed V 2 x 128 / 2", of("zaya", **BF16), state_bytes(40 * (10 * 128 * 2 + 128) * 2)),
        ("inkling_text", "4 short convolutions: 2 of the KV width, 2 of hidden; K-1 = 3", of("inkling_text", **BF16),
         state_bytes(2 * 3 * (55 * (2 * 16 * 128 + 2 * 6144) + 11 * (2 * 8 * 128 + 2 * 6144)))),
        ("kimi_linear KDA", "(K-1) x 3 H D + H D D in fp32", of("kimi_linear", num_hidden_layers=4, hidden_size=2304, num_attention_heads=32,
         linear_attn_config={"full_attn_layers": [4], "kda_layers": [1, 2, 3]}, **BF16), state_bytes(3 * (3 * 3 * 32 * 128 * 2 + 32 * 128 * 128 * 4))),
        ("glm5_next KDA", "64 heads of 128", of("glm5_next_text", num_hidden_layers=4, **BF16),
         state_bytes(3 * (3 * 3 * 64 * 128 * 2 + 64 * 128 * 128 * 4))),
        ("rwkv7", "states only", of("rwkv7", hidden_size=2048, head_dim=64, num_hidden_layers=4, **BF16), pattern("R4")),
    ])
