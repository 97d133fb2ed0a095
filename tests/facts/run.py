#!/usr/bin/env python3
"""kvatlas against the facts: every published config, the six probes, the classes' own patterns, the traps,
all model types.

    run.py KVATLAS [WORD...]     only the tests whose names hold one of the words

What is expected is computed here (formulas.py) or stands in the data beside it, never asked of the program.
"""
import json
import os
import sys

import formulas
import probes
import rules
import traps
from harness import Failed, Harness, as_classes, cache_of, expect, expect_need, expect_pattern, finish, letters

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "facts")
CONTEXTS = (1, 4096, 131072)


def load(name):
    with open(os.path.join(DATA, name)) as f:
        return json.load(f)


class Selected:
    """A harness that leaves out the tests that were not asked for."""

    def __init__(self, harness, chosen):
        self.harness, self.chosen = harness, chosen

    def __getattr__(self, name):
        return getattr(self.harness, name)

    def case(self, name, function, *args):
        if not self.chosen or any(word.lower() in name.lower() for word in self.chosen):
            self.harness.case(name, function, *args)


def published(h):
    """1. Every models.yaml entry that was seen as config.json, and those of its tables that hold a config in its own keys."""
    for entry in load("models.json"):
        layers, config = formulas.layers_of(entry["config"]), entry["config"]

        def shape(config=config, layers=layers):
            shown = h.show(config)
            # grouped-query attention with an index key has no letter of its own: F or I
            indexed = "F" if formulas.text_config(config)["model_type"].startswith("minimax_m3") else "I"
            expect_pattern(shown, formulas.pattern(layers), formulas.words(layers), indexed)
        h.case("model %s: pattern" % entry["id"], shape)
        for context in CONTEXTS:
            h.case("model %s: need at %d" % (entry["id"], context), expect_need, h, config, layers, context)

        def parts(config=config, layers=layers):
            plan = h.plan(config, 131072)
            expect("the sum of the layers", plan["bytes"]["need"], sum(x["need"] for x in plan["layers"]))
            expect("state", formulas.states(layers), plan["bytes"]["state"], formulas.words(layers))
            saved = 0
            if any(layer.letter == "X" for layer in layers):
                saved = formulas.need(formulas.unshared(config), 131072) - formulas.need(layers, 131072)
            expect("sharing_saved", saved, plan["bytes"]["sharing_saved"])
        h.case("model %s: parts" % entry["id"], parts)


# A letter of golden_default -> what it may be here (architectures.yaml, line 3 of its head)
GOLDEN = {"L": "RV", "D": "I", "R": "R", "V": "V", "F": "F", "S": "S", "C": "C", "H": "H", "h": "h", "c": "c", "k": "k"}


def compare(h, config, pattern, allowed=GOLDEN):
    got = as_classes(h.show(config), pattern)
    if len(got) != len(pattern) or any(g not in allowed.get(p, p) for g, p in zip(got, pattern)):
        raise Failed("pattern (inert windows read as S):\n  expected %s\n  got      %s" % (
            formulas.run_lengths(pattern), formulas.run_lengths(got)))


def lengths(h):
    """6. The same for other numbers of layers: what the classes of Transformers 5.17 made of num_hidden_layers alone."""
    for model_type, patterns in load("lengths.json").items():
        for count, pattern in patterns.items():
            config = {"model_type": model_type, "num_hidden_layers": int(count)}
            h.case("length %s %s" % (model_type, count), compare, h, config, pattern)


def golden(h):
    """3. The pattern that each class makes of its own defaults, from a config that holds only its model_type."""
    for model_type, pattern in load("golden.json").items():
        def check(model_type=model_type, pattern=pattern):
            allowed = dict(GOLDEN)
            if model_type == "recurrent_gemma":
                # F there is the class's label "attention"; the attention is a window of attention_window_size
                # (its rule in architectures.yaml; Transformers 5.17 modeling_recurrent_gemma.py:683)
                allowed["F"] = "S"
            compare(h, {"model_type": model_type}, pattern, allowed)
        h.case("golden %s" % model_type, check)


# Types whose number of layers no fact gives, so that their name alone is too little: with the least that a file would say.
LEAST = {
    "num_hidden_layers": 4, "num_layers": 4, "n_layer": 4, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4,
    "head_dim": 128, "max_position_embeddings": 131072,
}
LEAST_OF = {
    "longcat_flash_ngram": {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128},
    "openelm": {"num_transformer_layers": 2, "model_dim": 1280, "num_kv_heads": [3, 4], "num_query_heads": [12, 16]},
    "nemotron-nas": {"num_hidden_layers": 1, "block_configs": [
        {"attention": {"n_heads_in_group": 4, "no_op": False, "replace_with_linear": False}}]},
    "afm7": {"num_kv_heads": 1, "num_kv_reuse_layers": 2, "hidden_dim": 2048, "num_heads": 16},
    "bailing_hybrid": {"layer_group_size": 4},
    "bailing_moe_linear": {"layer_group_size": 4},
    "mimo_v2": {"hybrid_layer_pattern": [0, 1, 1, 0], "swa_num_key_value_heads": 8, "swa_head_dim": 128, "swa_v_head_dim": 128,
                "v_head_dim": 128, "sliding_window_size": 128},
    "baichuan_m1": {"sliding_window_layers": [1, 3], "sliding_window": 8192, "num_swa_key_value_heads": 4, "num_swa_attention_heads": 16},
}


# What these wrappers' classes put under a given text_config, from Transformers 5.17: _default_text_config_kwargs of
# models/{voxtral,glmasr,voxtral_realtime}/configuration_*.py.
TEXT_UNDER = {
    "voxtral": {"hidden_size": 3072, "num_hidden_layers": 30, "num_key_value_heads": 8, "head_dim": 128},
    "glmasr": {"hidden_size": 2048, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 4},
    "voxtral_realtime": {"hidden_size": 3072, "num_hidden_layers": 26, "num_attention_heads": 32, "num_key_value_heads": 8,
                         "head_dim": 128, "sliding_window": 8192, "max_position_embeddings": 131072},
}
# What these wrappers' classes make of an absent text_config, from the same place (layers, KV heads, head_dim).
TEXT_ABSENT = {"fast_vlm": (28, 4, 128), "got_ocr2": (24, 16, 64), "lighton_ocr": (28, 8, 128), "mistral3": (40, 8, 128),
               "paligemma": (18, 1, 256), "pp_chart2table": (24, 16, 64), "qwen3_asr": (28, 8, 128), "pi0": (18, 1, 256),
               "granite4_vision": (32, 32, 128)}
# Known, and refused: blt's local encoder and global transformer keep caches that are not described yet.
REFUSED = ["blt"]


def types(h):
    """5. All model types are known: their name alone (or, where the facts give no defaults, with a few sizes) is read; a
    wrapper caches what its text model caches; types whose caches are out of scope are refused. Uniform types besides have
    the layers, KV heads and head widths of their class defaults (architectures.yaml, the same in Transformers 5.17);
    the text encoders among them, such as CLIP's, never decode and are left out."""
    defaults = load("defaults.json")
    for model_type, how in load("types.json").items():
        def known(model_type=model_type, how=how):
            config = {"model_type": model_type}
            if how == "out of scope":
                code, _, _ = h.run(["show", h.write(dict(config, **LEAST)), "--format", "json"])
                if code != 3:
                    raise Failed("its caches are out of scope: expected exit 3, got %d" % code)
                return
            if how == "flat":
                code, _, _ = h.run(["show", h.write(config), "--format", "json"])
                h.show(dict(LEAST, **dict(LEAST_OF.get(model_type, {}), **config)) if code == 2 else config)
                return
            if model_type in REFUSED:
                code, _, _ = h.run(["show", h.write(config), "--format", "json"])
                if code != 3:
                    raise Failed("expected exit 3, got %d" % code)
                return
            for key, inner in how.items():
                config[key] = {"model_type": inner}
                text, whole = h.show(dict(TEXT_UNDER.get(model_type, {}), model_type=inner)), h.show(config)
                expect("caches of %s in %s" % (inner, key), [x["caches"] for x in text["layers"]], [x["caches"] for x in whole["layers"]])
        h.case("type %s: known" % model_type, known)
    for model_type, (layers, kv_heads, head_dim) in TEXT_ABSENT.items():
        def absent(model_type=model_type, layers=layers, kv_heads=kv_heads, head_dim=head_dim):
            shown = h.show({"model_type": model_type})["layers"]
            expect("layers", layers, len(shown))
            cache = shown[0]["caches"][0]
            expect("KV heads and widths", (kv_heads, head_dim, head_dim), (cache["kv_heads"], cache["k_dim"], cache["v_dim"]))
        h.case("type %s: without a text_config" % model_type, absent)
    for model_type, want in defaults.items():
        def sizes(model_type=model_type, want=want):
            want = dict(want)
            decoder = {"is_decoder": True} if want.pop("is_decoder", False) else {}
            shown = h.show(dict({"model_type": model_type}, **decoder))
            first = cache_of(shown, 0)
            got = {"layers": len(shown["layers"]), "kv_heads": first["kv_heads"], "head_dim": first["k_dim"]}
            expect("class defaults", want, got)
            expect("V width", want["head_dim"], first["v_dim"])
            if set(letters(shown["pattern"])) != {"F"}:
                raise Failed("pattern: uniform full attention, got " + shown["pattern"])
        h.case("type %s: class defaults" % model_type, sizes)


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: run.py KVATLAS [WORD...]")
    harness = Harness(os.path.abspath(sys.argv[1]))
    h = Selected(harness, sys.argv[2:])
    published(h)
    probes.run(h)
    golden(h)
    traps.vectors(h)
    traps.run(h)
    rules.run(h)
    types(h)
    lengths(h)
    finish(harness)


if __name__ == "__main__":
    main()
