"""What the fixture makers share: seeded weights, and the files that make one fixture."""
import json
import math
from pathlib import Path

import torch
from safetensors.torch import save_file

torch.set_num_threads(1)  # one order of summation, so that a second run gives the same bits


def generator(seed):
    return torch.Generator().manual_seed(seed)


def token_ids(seed, count, vocab):
    """Random ids, none of them one of the three special ones."""
    return torch.randint(3, vocab, (1, count), generator=generator(seed)).to(torch.int32)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def rounded(value, digits=4):
    return float(f"%.{digits}g" % value)


def write_expected(path, ids, logits, decode_logits):
    save_file({"input_ids": ids.to(torch.int32).contiguous(),
               "logits": logits.to(torch.float32).contiguous(),
               "decode_logits": decode_logits.to(torch.float32).contiguous()}, path)


def max_abs(a, b):
    return (a.double() - b.double()).abs().max().item()


def continue_greedily(last_row, prompts, count):
    """What each prompt continues to on its own; last_row(ids) gives the logits after `ids`.

    Also gives the smallest distance between the best and the second-best logit, over every step taken.
    """
    greedy, rows, margin = [], [], math.inf
    for prompt in prompts:
        ids, steps = list(prompt), []
        for _ in range(count):
            row = last_row(ids)
            best, second = row.topk(2).values.tolist()
            margin = min(margin, best - second)
            ids.append(int(row.argmax()))
            steps.append([round(value, 7) for value in row.tolist()])
        greedy.append(ids[len(prompt):])
        rows.append(steps)
    return greedy, rows, margin


def find_directory(out, name):
    directory = Path(out) / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory
