"""RoPE tables: the inverse frequencies and the scale of cos and sin that Transformers computes for a config.

`config` holds the keys as a config.json would. `seq_len` is the number of positions in the pass (highest position + 1),
or null where nothing was passed; only dynamic and longrope look at it. Frequencies are float32, printed to 9 digits.
The published values: Llama-3.1-8B, Llama-3.2-1B, Qwen2.5 (its model card's YaRN), gemma-3-4b, Phi-4-mini-instruct
(config.json at revision cfbefacb), gpt-oss-20b, gemma-4 (the class's defaults), DeepSeek-V2-Lite's YaRN keys (on a
llama shape).
"""
import copy

import transformers
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextRotaryEmbedding
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssRotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from common import write_json

transformers.logging.set_verbosity_error()

EMBEDDINGS = {"llama": LlamaRotaryEmbedding, "qwen2": LlamaRotaryEmbedding, "phi3": Phi3RotaryEmbedding,
              "gpt_oss": GptOssRotaryEmbedding, "gemma3_text": Gemma3RotaryEmbedding,
              "gemma4_text": Gemma4TextRotaryEmbedding}

PHI4_LONG = [1, 1.118320672, 1.250641126, 1.398617824, 1.564103225, 1.74916897, 1.956131817, 2.187582649, 2.446418898,
             2.735880826, 3.059592084, 3.421605075, 3.826451687, 4.279200023, 4.785517845, 5.351743533, 5.984965424,
             6.693110555, 7.485043894, 8.370679318, 9.36110372, 10.4687158, 11.70738129, 13.09260651, 14.64173252,
             16.37415215, 18.31155283, 20.47818807, 22.90118105, 25.61086418, 28.64115884, 32.03, 32.1, 32.13, 32.23,
             32.6, 32.61, 32.64, 32.66, 32.7, 32.71, 32.93, 32.97, 33.28, 33.49, 33.5, 44.16, 47.77]

LLAMA3_8B = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0,
             "max_position_embeddings": 131072,
             "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 8192, "rope_type": "llama3"}}
LLAMA3_1B = {"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 32, "head_dim": 64,
             "rope_theta": 500000.0, "max_position_embeddings": 131072,
             "rope_scaling": {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 8192, "rope_type": "llama3"}}
PHI4_MINI = {"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 24, "partial_rotary_factor": 0.75,
             "rope_theta": 10000.0, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
             "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": PHI4_LONG}}
GPT_OSS = {"model_type": "gpt_oss", "hidden_size": 2880, "num_attention_heads": 64, "head_dim": 64,
           "rope_theta": 150000, "max_position_embeddings": 131072,
           "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                            "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": False}}
GEMMA3_4B = {"model_type": "gemma3_text", "hidden_size": 2560, "num_attention_heads": 8, "head_dim": 256,
             "num_hidden_layers": 34, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
             "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}
GEMMA4 = {"model_type": "gemma4_text", "hidden_size": 2304, "num_attention_heads": 8, "head_dim": 256,
          "global_head_dim": 512,
          "rope_parameters": {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                                                 "rope_theta": 1000000.0},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}


def llama(head_dim=128, theta=10000.0, context=4096, **scaling):
    keys = {"model_type": "llama", "hidden_size": 4 * head_dim, "num_attention_heads": 4, "head_dim": head_dim,
            "rope_theta": theta, "max_position_embeddings": context}
    return keys | ({"rope_scaling": scaling} if scaling else {})


def phi3(head_dim=16, partial=1.0, original=64, context=256, **scaling):
    half = int(head_dim * partial) // 2
    return {"model_type": "phi3", "hidden_size": 4 * head_dim, "num_attention_heads": 4, "rope_theta": 10000.0,
            "partial_rotary_factor": partial, "max_position_embeddings": context,
            "original_max_position_embeddings": original,
            "rope_scaling": {"type": "longrope", "short_factor": [1 + i / 16 for i in range(half)],
                             "long_factor": [1 + i / 2 for i in range(half)]} | scaling}


def yarn(factor, original, **keys):
    return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original} | keys


# name, config, layer type, sequence lengths
TABLES = [
    ("default", llama(), None, [None]),
    ("default, head_dim from hidden/heads", {"model_type": "llama", "hidden_size": 96, "num_attention_heads": 4,
                                             "rope_theta": 500.0}, None, [None]),
    ("default, partial_rotary_factor 0.5", {"model_type": "phi3", "hidden_size": 64, "num_attention_heads": 4,
                                            "rope_theta": 10000.0, "partial_rotary_factor": 0.5}, None, [None]),
    ("default, rope_theta absent", {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}, None, [None]),
    ("linear 4", llama(rope_type="linear", factor=4.0), None, [None]),
    ("linear 2.5, old key type", llama(24, 1000.0, type="linear", factor=2.5), None, [None]),
    ("gemma-3-4b, full layers", GEMMA3_4B, "full_attention", [None]),
    ("gemma-3-4b, sliding layers", GEMMA3_4B, "sliding_attention", [None]),
    ("gemma-4, full layers", GEMMA4, "full_attention", [None]),
    ("gemma-4, sliding layers", GEMMA4, "sliding_attention", [None]),
    ("dynamic 2 over 2048", llama(128, context=2048, rope_type="dynamic", factor=2.0), None,
     [None, 1, 2047, 2048, 2049, 3000, 4096, 8192]),
    ("dynamic 4 over 16", llama(20, context=16, rope_type="dynamic", factor=4.0), None, [None, 16, 17, 30, 44]),
    ("dynamic 1 over 16", llama(16, context=16, rope_type="dynamic", factor=1.0), None, [44]),
    ("Llama-3.1-8B", LLAMA3_8B, None, [None]),
    ("Llama-3.2-1B", LLAMA3_1B, None, [None]),
    ("llama3, original_max_position_embeddings absent",
     llama(16, context=64, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0), None, [None]),
    ("Qwen2.5 YaRN 4", {"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28, "rope_theta": 1000000.0,
                        "max_position_embeddings": 32768, "rope_scaling": {"factor": 4.0, "type": "yarn",
                                                                           "original_max_position_embeddings": 32768}},
     None, [None]),
    ("yarn, original_max_position_embeddings absent", llama(rope_type="yarn", factor=4.0), None, [None]),
    ("yarn, truncate false", llama(64, context=8192, **yarn(4.0, 2048, truncate=False)), None, [None]),
    ("yarn, truncate true", llama(64, context=8192, **yarn(4.0, 2048, truncate=True)), None, [None]),
    ("yarn, attention_factor", llama(64, context=8192, **yarn(4.0, 2048, attention_factor=0.75)), None, [None]),
    ("yarn, mscale 0.707 both (DeepSeek-V2-Lite)",
     llama(64, context=163840, **yarn(40, 4096, beta_fast=32, beta_slow=1, mscale=0.707, mscale_all_dim=0.707)), None,
     [None]),
    ("yarn, mscale 1, mscale_all_dim 0.8",
     llama(64, context=163840, **yarn(40.0, 4096, mscale=1.0, mscale_all_dim=0.8)), None, [None]),
    ("yarn, mscale only", llama(64, context=163840, **yarn(40.0, 4096, mscale=0.5)), None, [None]),
    ("yarn, mscale_all_dim 0", llama(64, context=163840, **yarn(40.0, 4096, mscale=0.5, mscale_all_dim=0)), None,
     [None]),
    ("yarn, factor 1", llama(64, context=4096, **yarn(1.0, 4096)), None, [None]),
    ("yarn, betas", llama(128, 500000.0, context=65536, **yarn(8.0, 8192, beta_fast=4.0, beta_slow=0.5)), None, [None]),
    ("yarn, bounds below and above the range", llama(8, 100.0, context=64, **yarn(4.0, 16, beta_slow=0.001)), None,
     [None]),
    ("yarn, equal bounds", llama(8, 10000.0, context=16, **yarn(4.0, 4, beta_fast=8, beta_slow=4)), None, [None]),
    ("gpt-oss-20b", GPT_OSS, None, [None]),
    ("Phi-4-mini-instruct", PHI4_MINI, None, [None, 4096, 4097, 131072]),
    ("longrope, partial 0.5", phi3(32, 0.5), None, [64, 65]),
    ("longrope, context as trained", phi3(context=64), None, [64, 65]),
    ("longrope, factor", phi3(factor=2.0), None, [64, 65]),
    ("longrope, attention_factor", phi3(attention_factor=1.5), None, [64, 65]),
    ("longrope, old name su", phi3(type="su", original_max_position_embeddings=64), None, [64, 65]),
]


def read(keys):
    keys = copy.deepcopy(keys)
    return AutoConfig.for_model(keys.pop("model_type"), **keys)


def table(keys, layer_type, seq_len):
    """rope_type, frequencies and scale."""
    config = read(keys)
    embedding = EMBEDDINGS[keys["model_type"]]
    rope = config.rope_parameters[layer_type] if layer_type else config.rope_parameters
    arguments = {"layer_type": layer_type} if layer_type else {}
    if keys["model_type"].startswith("gemma4"):  # its full layers have another head_dim: the way the model asks
        config = config.per_layer_config[layer_type]
    function = ROPE_INIT_FUNCTIONS.get(rope["rope_type"], getattr(embedding, "compute_default_rope_parameters"))
    frequencies, scale = function(config, None, seq_len=seq_len, **arguments)
    return rope["rope_type"], [float("%.9g" % value) for value in frequencies.tolist()], float(scale)


def main(out):
    tables = []
    for name, keys, layer_type, lengths in TABLES:
        for seq_len in lengths:
            rope_type, frequencies, scale = table(keys, layer_type, seq_len)
            tables.append({"name": name, "config": keys, "layer_type": layer_type, "seq_len": seq_len,
                           "rope_type": rope_type, "attention_scaling": scale, "inv_freq": frequencies})
    write_json(out / "rope.json", {"transformers": transformers.__version__, "tables": tables})
    print(f"rope.json              {len(tables)} tables")
