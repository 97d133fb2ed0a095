"""Fixtures whose truth is Hugging Face Transformers: float32, eager attention, CPU.

Each config.json is written by hand, in the old (v4) or the new (v5) form, and Transformers reads it from the
disk: so what the keys mean is part of the truth too.
"""
import copy
import json
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from common import find_directory, generator, max_abs, rounded, token_ids, write_expected, write_json

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

AGREE = 1e-5   # cached decoding against the full pass
MATTERS = 1e-3  # what a change of a key under test must do to the logits at least


# ---- configs -------------------------------------------------------------------------------------------------------

def llama(**keys):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 48,
            "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 16, "vocab_size": 101, "rms_norm_eps": 1e-05, "max_position_embeddings": 256,
            "rope_theta": 10000.0, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
            "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2} | keys


def phi3(**keys):
    return {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu", "hidden_size": 64,
            "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
            "vocab_size": 101, "rms_norm_eps": 1e-05, "max_position_embeddings": 256,
            "original_max_position_embeddings": 256, "rope_theta": 10000.0, "rope_scaling": None,
            "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "float32", "bos_token_id": 1,
            "eos_token_id": 2, "pad_token_id": 0} | keys


def qwen2(**keys):
    return {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 48,
            "intermediate_size": 80, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2,
            "vocab_size": 101, "rms_norm_eps": 1e-06, "max_position_embeddings": 256, "max_window_layers": 2,
            "rope_theta": 1000000.0, "sliding_window": 6, "use_sliding_window": True, "tie_word_embeddings": False,
            "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2} | keys


def qwen3(**keys):
    return qwen2(architectures=["Qwen3ForCausalLM"], model_type="qwen3", num_attention_heads=4, head_dim=16,
                 rope_scaling=None, attention_bias=False, tie_word_embeddings=True) | keys


def mistral(**keys):
    return {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_act": "silu", "hidden_size": 48,
            "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
            "vocab_size": 101, "rms_norm_eps": 1e-05, "max_position_embeddings": 256, "rope_theta": 10000.0,
            "sliding_window": 7, "tie_word_embeddings": False, "torch_dtype": "float32", "bos_token_id": 1,
            "eos_token_id": 2} | keys


def gemma2(**keys):
    return {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh",
            "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 48, "intermediate_size": 80,
            "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
            "vocab_size": 101, "rms_norm_eps": 1e-06, "max_position_embeddings": 256, "rope_theta": 10000.0,
            "sliding_window": 6, "sliding_window_size": 6, "query_pre_attn_scalar": 20,
            "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.5, "cache_implementation": "hybrid",
            "attention_bias": False, "attention_dropout": 0.0, "torch_dtype": "float32", "bos_token_id": 1,
            "eos_token_id": 2, "pad_token_id": 0} | keys


def gemma3(**keys):
    """As gemma-3-1b-it's config.json of March 2025 has it, the rope_scaling being that of the larger ones."""
    return {"architectures": ["Gemma3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
            "attn_logit_softcapping": None, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": [1, 2],
            "final_logit_softcapping": None, "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": 48, "initializer_range": 0.02, "intermediate_size": 64, "max_position_embeddings": 256,
            "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 8, "num_key_value_heads": 2,
            "pad_token_id": 0, "query_pre_attn_scalar": 24, "rms_norm_eps": 1e-06, "rope_local_base_freq": 100.0,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "rope_theta": 20000.0, "sliding_window": 5,
            "sliding_window_pattern": 3, "torch_dtype": "float32", "transformers_version": "4.50.0.dev0",
            "use_cache": True, "vocab_size": 101} | keys


def gemma3_wrapper():
    """As gemma-3-4b-it's: a text_config that leaves most keys to the class's defaults."""
    return {"architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 95, "eoi_token_index": 96,
            "eos_token_id": [1, 2], "image_token_index": 97, "initializer_range": 0.02, "mm_tokens_per_image": 4,
            "model_type": "gemma3",
            "text_config": {"head_dim": 16, "hidden_size": 32, "intermediate_size": 48, "model_type": "gemma3_text",
                            "num_attention_heads": 4, "num_hidden_layers": 7, "num_key_value_heads": 2,
                            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 9,
                            "vocab_size": 101},
            "torch_dtype": "float32", "transformers_version": "4.50.0.dev0",
            "vision_config": {"hidden_size": 16, "image_size": 28, "intermediate_size": 16,
                              "model_type": "siglip_vision_model", "num_attention_heads": 2, "num_hidden_layers": 1,
                              "patch_size": 14, "vision_use_head": False}}


def with_keys(*names, **keys):
    """A change of a config: `keys` replaced at the top, or inside the dictionary that `names` lead to."""
    def change(config):
        config = copy.deepcopy(config)
        place = config
        for name in names:
            place = place[name]
        for key, value in keys.items():
            if value is ABSENT:
                place.pop(key)
            else:
                place[key] = value
        return config
    return change


ABSENT = object()
SHORT_FACTOR = [1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0]
LONG_FACTOR = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]

# name: seed, config, tokens, prefill, {what is changed: the change}; every change must move the logits.
FIXTURES = {
    "llama-linear": (101, llama(head_dim=24, rope_scaling={"type": "linear", "factor": 4.0}), 44, 30,
                     {"rope default": with_keys(rope_scaling=None)}),
    "llama-dynamic": (102, llama(head_dim=20, max_position_embeddings=16,
                                 rope_scaling={"rope_type": "dynamic", "factor": 4.0}), 44, 30,
                      {"rope default": with_keys(rope_scaling=None),
                       "max_position_embeddings 32": with_keys(max_position_embeddings=32)}),
    "llama-yarn": (103, llama(rope_theta=10000.0, max_position_embeddings=64, num_attention_heads=6,
                              num_key_value_heads=3, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                              rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0,
                                               "original_max_position_embeddings": 16}), 44, 30,
                   {"rope default": with_keys(rope_parameters={"rope_type": "default", "rope_theta": 1000.0}),
                    "attention_factor 1": with_keys("rope_parameters", attention_factor=1.0),
                    "rope_theta of the top level": with_keys("rope_parameters", rope_theta=ABSENT),
                    "truncate false": with_keys("rope_parameters", truncate=False)}),
    "llama-yarn-attention": (104, llama(head_dim=32, num_key_value_heads=1, rope_theta=1000.0,
                                        rope_scaling={"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.25,
                                                      "beta_fast": 4.0, "beta_slow": 0.5, "truncate": False,
                                                      "original_max_position_embeddings": 32}), 44, 30,
                             {"rope default": with_keys(rope_scaling=None),
                              "attention_factor absent": with_keys("rope_scaling", attention_factor=ABSENT),
                              "truncate absent": with_keys("rope_scaling", truncate=ABSENT),
                              "betas absent": with_keys("rope_scaling", beta_fast=ABSENT, beta_slow=ABSENT)}),
    "llama-llama3": (105, llama(num_attention_heads=6, attention_bias=True, mlp_bias=True,
                                rope_scaling={"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                                              "original_max_position_embeddings": 64, "rope_type": "llama3"}), 44, 30,
                     {"rope default": with_keys(rope_scaling=None),
                      "original_max_position_embeddings absent":
                          with_keys("rope_scaling", original_max_position_embeddings=ABSENT),
                      "high_freq_factor 2": with_keys("rope_scaling", high_freq_factor=2.0)}),
    "llama-bias": (106, llama(head_dim=10, num_attention_heads=3, num_key_value_heads=3, attention_bias=True,
                              mlp_bias=True, tie_word_embeddings=True, rope_theta=500.0), 44, 1,
                   {"rope_theta 10000": with_keys(rope_theta=10000.0)}),
    "phi3-longrope-short": (107, phi3(original_max_position_embeddings=64, tie_word_embeddings=True,
                                      rope_scaling={"type": "longrope", "short_factor": SHORT_FACTOR,
                                                    "long_factor": LONG_FACTOR}), 44, 30,
                            {"long factors": with_keys("rope_scaling", short_factor=LONG_FACTOR),
                             "short factors 1": with_keys("rope_scaling", short_factor=[1.0] * 8),
                             "max_position_embeddings 64": with_keys(max_position_embeddings=64)}),
    "phi3-partial": (108, phi3(partial_rotary_factor=0.5, sliding_window=5), 44, 30,
                     {"partial_rotary_factor 1": with_keys(partial_rotary_factor=1.0),
                      "no window": with_keys(sliding_window=None), "window 6": with_keys(sliding_window=6)}),
    "phi3-short-prompt": (109, phi3(sliding_window=9), 44, 3,
                          {"no window": with_keys(sliding_window=None), "window 8": with_keys(sliding_window=8)}),
    "qwen3-window": (110, qwen3(), 44, 30,
                     {"no window": with_keys(use_sliding_window=False), "window 7": with_keys(sliding_window=7),
                      "max_window_layers 3": with_keys(max_window_layers=3),
                      "max_window_layers 0": with_keys(max_window_layers=0)}),
    "qwen2-window": (111, qwen2(), 44, 6,
                     {"no window": with_keys(use_sliding_window=False), "window 7": with_keys(sliding_window=7),
                      "max_window_layers 3": with_keys(max_window_layers=3),
                      "max_window_layers 0": with_keys(max_window_layers=0)}),
    "mistral-window": (112, mistral(), 44, 7,
                       {"no window": with_keys(sliding_window=None), "window 8": with_keys(sliding_window=8)}),
    "gemma3-linear": (113, gemma3(), 44, 30,
                      {"no rope_scaling": with_keys(rope_scaling=None),
                       "rope_local_base_freq as rope_theta": with_keys(rope_local_base_freq=20000.0),
                       "rope_theta absent": with_keys(rope_theta=ABSENT), "window 6": with_keys(sliding_window=6),
                       "sliding_window_pattern absent": with_keys(sliding_window_pattern=ABSENT),
                       "query_pre_attn_scalar 32": with_keys(query_pre_attn_scalar=32),
                       "hidden_activation gelu": with_keys(hidden_activation="gelu")}),
    "gemma2-softcap": (114, gemma2(), 44, 30,
                       {"no attn_logit_softcapping": with_keys(attn_logit_softcapping=None),
                        "no final_logit_softcapping": with_keys(final_logit_softcapping=None),
                        "query_pre_attn_scalar 16": with_keys(query_pre_attn_scalar=16),
                        "window 7": with_keys(sliding_window=7)}),
    "gemma3-wrapper": (115, gemma3_wrapper(), 44, 30,
                       {"no rope_scaling": with_keys("text_config", rope_scaling=None),
                        "window 8": with_keys("text_config", sliding_window=8),
                        "sliding_window_pattern 3": with_keys("text_config", sliding_window_pattern=3),
                        "query_pre_attn_scalar 16": with_keys("text_config", query_pre_attn_scalar=16)}),
}


# ---- weights -------------------------------------------------------------------------------------------------------

def draw_weights(model, seed):
    """Random weights under which nothing is degenerate: sharp attention, norms near one, biases that matter."""
    source = generator(seed)
    gemma = model.config.model_type.startswith("gemma")
    with torch.no_grad():
        for name, value in sorted(model.named_parameters()):
            noise = torch.randn(value.shape, generator=source)
            if name.endswith("bias"):
                value.copy_(0.2 * noise)
            elif value.ndim == 1:
                centre = 0.4 if name.endswith(("q_norm.weight", "k_norm.weight")) else 0.0
                value.copy_(0.1 * noise + centre + (0.0 if gemma else 1.0))
            else:
                noise /= value.shape[-1] ** 0.5
                if name.endswith(("q_proj.weight", "k_proj.weight")):
                    noise *= 1.5
                if name.endswith("qkv_proj.weight"):
                    value_rows = model.config.num_key_value_heads * model.model.layers[0].self_attn.head_dim
                    noise[:-value_rows] *= 1.5
                value.copy_(noise)


def spread_logits(model, ids):
    """Scales the last norm so that the logits' standard deviation (before any soft cap) is one."""
    cap = getattr(model.config, "final_logit_softcapping", None)
    model.config.final_logit_softcapping = None
    spread = whole_pass(model, ids).std().item()
    model.config.final_logit_softcapping = cap
    offset = 1.0 if model.config.model_type.startswith("gemma") else 0.0
    with torch.no_grad():
        weight = model.model.norm.weight
        weight.copy_((weight + offset) / spread - offset)


# ---- truth ---------------------------------------------------------------------------------------------------------

def whole_pass(model, ids):
    with torch.no_grad():
        return model(input_ids=ids.long(), use_cache=False).logits[0]


def cached_decode(model, ids, prefill):
    """The last row of a prefill of `prefill` tokens, then a row for each token decoded with the cache."""
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        rows = [model(input_ids=ids[:, :prefill].long(), past_key_values=cache, use_cache=True).logits[0, -1]]
        after_prefill = describe_cache(cache)
        for at in range(prefill, ids.shape[1] - 1):
            rows.append(model(input_ids=ids[:, at:at + 1].long(), past_key_values=cache, use_cache=True).logits[0, -1])
    return torch.stack(rows), after_prefill, describe_cache(cache)


def describe_cache(cache):
    layers = []
    for index, layer in enumerate(cache.layers):
        held = [(name, getattr(layer, name)) for name in ("keys", "values")]
        layers.append({"layer": index, "type": type(layer).__name__,
                       "tensors": [[name, list(t.shape), str(t.dtype).removeprefix("torch."), t.nbytes]
                                   for name, t in held],
                       "bytes": sum(t.nbytes for _, t in held)})
    return layers


def load_text_config(config):
    """The text model's config, as Transformers reads it from a config.json on the disk."""
    with tempfile.TemporaryDirectory() as place:
        write_json(Path(place) / "config.json", config)
        read = AutoConfig.from_pretrained(place)
    return read.get_text_config()


def build(config):
    return AutoModelForCausalLM.from_config(load_text_config(config), dtype=torch.float32,
                                            attn_implementation="eager").eval()


def build_with(config, weights):
    model = build(config)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model


def read_fixture(directory):
    """A fixture's model and config, through from_pretrained, or for the wrapper through its renamed tensors."""
    config = json.loads((directory / "config.json").read_text())
    if "text_config" not in config:
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
        return model.eval(), config
    prefix = "language_model."
    weights = {name.removeprefix(prefix): value for name, value in load_file(directory / "model.safetensors").items()
               if name.startswith(prefix)}
    return build_with(config, weights), config


def vision_parts(config, seed):
    """A few tensors of the vision tower, under their published names: a text executor must pass them over."""
    source, width = generator(seed), config["vision_config"]["hidden_size"]
    shapes = {"vision_tower.vision_model.embeddings.patch_embedding.weight": (width, 3, 14, 14),
              "vision_tower.vision_model.embeddings.patch_embedding.bias": (width,),
              "vision_tower.vision_model.embeddings.position_embedding.weight": (4, width),
              "multi_modal_projector.mm_input_projection_weight": (width, config["text_config"]["hidden_size"]),
              "multi_modal_projector.mm_soft_emb_norm.weight": (width,)}
    return {name: torch.randn(shape, generator=source) for name, shape in shapes.items()}


def make(out, name):
    seed, config, tokens, prefill, changes = FIXTURES[name]
    directory = find_directory(out, name)
    write_json(directory / "config.json", config)
    model = build(config)
    ids = token_ids(seed, tokens, model.config.vocab_size)
    draw_weights(model, seed)
    spread_logits(model, ids)
    weights = {key: value.detach().clone() for key, value in model.named_parameters()}  # a tied head is absent
    stored = weights
    if "text_config" in config:
        stored = {"language_model." + key: value for key, value in weights.items()} | vision_parts(config, seed)
    save_file(stored, directory / "model.safetensors", metadata={"format": "pt"})

    model, _ = read_fixture(directory)
    assert all(torch.equal(dict(model.named_parameters())[key], value) for key, value in weights.items())
    if model.config.rope_parameters.get("rope_type") == "dynamic":
        logits = whole_pass(model, ids)  # leaves the model with the base for all the tokens: see the README
        decoded, after_prefill, after_decode = cached_decode(model, ids, prefill)
        fresh, _, _ = cached_decode(read_fixture(directory)[0], ids, prefill)
        write_expected(directory / "expected-growing-base.safetensors", ids, logits, fresh)
        growing = {"growing_base_decode_vs_full_max_abs": max_abs(fresh, logits[prefill - 1:-1])}
    else:
        decoded, after_prefill, after_decode = cached_decode(model, ids, prefill)
        logits = whole_pass(read_fixture(directory)[0], ids)
        growing = {}
    write_expected(directory / "expected.safetensors", ids, logits, decoded)

    difference = max_abs(decoded, logits[prefill - 1:-1])
    assert difference < AGREE, (name, difference)
    moved = {what: rounded(max_abs(whole_pass(build_with(change(config), weights), ids), logits))
             for what, change in changes.items()}
    assert all(value > MATTERS for value in moved.values()), (name, moved)
    measured = {"transformers": transformers.__version__, "torch": torch.__version__, "prefill": prefill,
                "tokens": tokens, "parameters": sum(value.numel() for value in weights.values()), "dtype": "float32",
                "attn": "eager", "decode_vs_full_max_abs": difference, "logits_std": logits.std().item(),
                "logits_max_abs_when": moved, **growing,
                "rope_parameters_as_read": {key: value for key, value in model.config.rope_parameters.items()},
                "layer_types_as_read": getattr(model.config, "layer_types", None),
                "cache_class": "DynamicCache", "cache_after_prefill": after_prefill,
                "cache_after_decode": after_decode}
    write_json(directory / "measured.json", measured)
    if name == "gemma3-wrapper":
        check_wrapper(directory, ids, logits)
    print(f"{name:22} std {measured['logits_std']:.3f}  decode-full {difference:.1e}  {moved} {growing}")


def check_wrapper(directory, ids, logits):
    """Transformers' own multimodal class must read the renamed file to the same text model."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.float32,
                                                                     attn_implementation="eager").eval()
    difference = max_abs(whole_pass(model, ids), logits)
    assert difference < AGREE, difference


def make_shards(out, name="llama-sharded", original="llama-yarn-attention", count=3):
    """The same model in `count` files, cut inside layers, as a large checkpoint is."""
    source, directory = Path(out) / original, find_directory(out, name)
    weights = load_file(source / "model.safetensors")
    names = sorted(weights)
    index = {"metadata": {"total_size": sum(value.nbytes for value in weights.values())}, "weight_map": {}}
    for at in range(count):
        part = names[at * len(names) // count:(at + 1) * len(names) // count]
        file = f"model-{at + 1:05}-of-{count:05}.safetensors"
        save_file({key: weights[key] for key in part}, directory / file, metadata={"format": "pt"})
        index["weight_map"] |= {key: file for key in part}
    write_json(directory / "model.safetensors.index.json", index)
    for file in ("config.json", "expected.safetensors", "measured.json"):
        (directory / file).write_bytes((source / file).read_bytes())
    expected = load_file(directory / "expected.safetensors")
    assert torch.equal(whole_pass(read_fixture(directory)[0], expected["input_ids"]), expected["logits"])
    print(f"{name:22} {original} in {count} files")


def main(out):
    for name in FIXTURES:
        make(out, name)
    make_shards(out)
