"""Prompts of different lengths and what each one, alone, continues to: the truth for a batch of them.

Every step of every continuation is a whole pass without a cache, so batching, caching and padding have no part in it.
The prompts are searched for: no best logit is closer than MARGIN to the next, so that rounding cannot change a token.
"""
import torch

import make_hf
import make_sambay
from common import continue_greedily, generator, write_json

MODELS = {"llama": "llama-llama3", "gemma3": "gemma3-linear", "sambay": "sambay-12"}
LENGTHS = (5, 17, 30)
STEPS = 6
MARGIN = 1e-2
LEAST_KINDS = 8  # different tokens among the 18 continued: not one token over and over


def last_row_of(directory):
    """A function that gives the logits after some ids."""
    if directory.name.startswith("sambay"):
        weights = make_sambay.read_fixture(directory)
        return lambda ids: make_sambay.whole_pass(weights, torch.tensor(ids))[-1].float()
    model, _ = make_hf.read_fixture(directory)
    return lambda ids: make_hf.whole_pass(model, torch.tensor([ids]))[-1]


def search(last_row, vocab):
    for seed in range(300, 400):
        source = generator(seed)
        prompts = [torch.randint(3, vocab, (length,), generator=source).tolist() for length in LENGTHS]
        greedy, rows, margin = continue_greedily(last_row, prompts, STEPS)
        tokens = sum(greedy, [])
        if margin > MARGIN and min(tokens) > 2 and len(set(tokens)) >= LEAST_KINDS:
            return seed, prompts, greedy, rows, margin
    raise SystemExit("no prompts with a wide margin")


def main(out):
    for name, model in MODELS.items():
        seed, prompts, greedy, rows, margin = search(last_row_of(out / model), 101)
        write_json(out / f"batch-{name}.json",
                   {"model": model, "seed": seed, "least_margin": margin, "prompts": prompts, "greedy": greedy,
                    "last_logits": [steps[0] for steps in rows], "final_logits": [steps[-1] for steps in rows]})
        print(f"batch-{name:16} {model}, seed {seed}, margin {margin:.3f}, greedy {greedy}")
