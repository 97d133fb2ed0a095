"""Makes every fixture of tests/data/reference, and expected-bf16.safetensors there and in tests/data/hf-tiny, whose
other files are given; with --check makes them elsewhere and compares.

    python tests/reference/make.py            # needs torch 2.11 and transformers 5.17, CPU
    python tests/reference/make.py --check
"""
import argparse
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

from safetensors.torch import load_file

import make_batch
import make_bf16
import make_hf
import make_rope
import make_sambay
from common import max_abs

HOME = Path(__file__).resolve().parent.parent / "data"
GIVEN = "hf-tiny"  # folder of fixtures that are read, and not made


def make(data):
    for maker in (make_hf, make_sambay, make_bf16, make_batch, make_rope):
        maker.main(Path(data) / "reference")


def near(a, b, limit):
    """Whether two JSON values are the same, numbers to 1e-6 of themselves or to `limit`."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key], limit) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(near(x, y, limit) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=limit)
    return a == b


def files(tree):
    return {path.relative_to(tree) for path in tree.rglob("*") if path.is_file() and path.name != "README.md"}


def differs(ours, theirs):
    if ours.suffix == ".safetensors":
        limit = 0 if ours.name.startswith("model") else 1e-5  # weights to the bit
        a, b = load_file(ours), load_file(theirs)
        return a.keys() != b.keys() or any(max_abs(a[name], b[name]) > limit for name in a)
    if ours.name == "measured.json":
        return False  # what it measures is in the tensors; it also names the versions
    limit = 0 if ours.name == "rope.json" else 1e-5
    return not near(json.loads(ours.read_text()), json.loads(theirs.read_text()), limit)


def compare(made, kept):
    """Prints what differs between two trees; 0 when nothing does."""
    wrong = [f"{path}: in one tree only" for path in sorted(files(made) ^ files(kept))]
    wrong += [f"{path}: differs" for path in sorted(files(made) & files(kept)) if differs(made / path, kept / path)]
    print("\n".join(wrong) or "the same")
    return bool(wrong)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="compare with what is there, and change nothing")
    if not arguments.parse_args().check:
        return make(HOME)
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(HOME / GIVEN, Path(place) / GIVEN, ignore=shutil.ignore_patterns("expected-bf16*"))
        make(place)
        return compare(Path(place), HOME)


if __name__ == "__main__":
    sys.exit(main())
