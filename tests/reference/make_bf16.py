"""What the fixtures give on weights rounded to bfloat16: the truth for a run whose weights are bfloat16.

Only the weights are rounded. The arithmetic afterwards is that of the fixture: float32 in Transformers, float64 in
SambaY. So what a bfloat16 run differs by is its own arithmetic, and not the rounding of the weights.
"""
from pathlib import Path

import torch
from safetensors.torch import load_file

import make_hf
import make_sambay
from common import max_abs, write_expected

SAME = 1e-5  # this program on the weights as they are, against expected.safetensors
MODELS = ("llama", "llama-rope3", "llama-tied-mha", "qwen2", "qwen3", "phi3-window", "phi4-mini-longrope", "gemma2",
          "gemma3", "mistral-full", "sambay-8")  # of hf-tiny
FLOAT32 = ("A_log", "lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")  # SambaY keeps these in float32


def round_weights(tensors):
    """Rounds named tensors to bfloat16, to nearest even, where they lie."""
    with torch.no_grad():
        for name, value in tensors:
            if not name.endswith(FLOAT32):
                value.copy_(value.to(torch.bfloat16))


def run_transformers(directory, ids, prefill, bf16):
    """Logits of a whole pass and of cached decoding."""
    model, _ = make_hf.read_fixture(directory)
    if bf16:
        round_weights(model.named_parameters())  # names a tied weight once
        if model.config.model_type.startswith("gemma"):
            round_weights([("embed_scale", model.model.embed_tokens.embed_scale)])  # has the weights' type
    logits = make_hf.whole_pass(model, ids)  # first: it leaves a dynamic rope with the base for all the tokens
    return logits, make_hf.cached_decode(model, ids, prefill)[0]


def run_sambay(directory, ids, prefill, bf16):
    weights = make_sambay.read_fixture(directory)
    if bf16:
        round_weights(weights.tensors.items())
    return make_sambay.whole_pass(weights, ids[0]), make_sambay.decode(weights, ids[0], prefill)[0]


def make(directory):
    expected = load_file(directory / "expected.safetensors")
    ids = expected["input_ids"]
    prefill = ids.shape[1] - len(expected["decode_logits"])
    sambay = directory.name.startswith("sambay")
    run, agree = (run_sambay, make_sambay.AGREE) if sambay else (run_transformers, make_hf.AGREE)
    for kept, ours in zip(("logits", "decode_logits"), run(directory, ids, prefill, False)):
        difference = max_abs(ours, expected[kept])
        assert difference < SAME, (directory, kept, difference)
    logits, decoded = run(directory, ids, prefill, True)
    difference = max_abs(decoded, logits[prefill - 1:-1])
    assert difference < agree, (directory, difference)
    write_expected(directory / "expected-bf16.safetensors", ids, logits, decoded)
    moved, std = logits.double() - expected["logits"].double(), expected["logits"].double().std()
    print(f"{directory.parent.name}/{directory.name:22} bf16 weights: decode-full {difference:.1e}  moved by rms "
          f"{moved.square().mean().sqrt() / std:.4f}, at most {moved.abs().max() / std:.4f} of std")


def main(out):
    """Beside every fixture of `out`, and beside those of hf-tiny that lie next to it."""
    for name in sorted((*make_hf.FIXTURES, "llama-sharded", *make_sambay.FIXTURES)):
        make(Path(out) / name)
    for name in MODELS:
        make(Path(out).parent / "hf-tiny" / name)
