"""Runs kvatlas on configs and counts; a failure is printed with what was expected, why, and what came."""
import json
import os
import re
import subprocess
import sys
import tempfile

import formulas


class Failed(Exception):
    pass


class Harness:
    def __init__(self, program):
        self.program, self.passed, self.failed = program, 0, []
        self.dir = tempfile.TemporaryDirectory(prefix="kvatlas-facts-")
        self.files = 0
        self.last = None

    def case(self, name, function, *args):
        try:
            try:
                function(*args)
            except (IndexError, KeyError, TypeError, subprocess.TimeoutExpired) as e:
                raise Failed("what it prints is not as promised: %s: %s" % (type(e).__name__, e))
        except Failed as e:
            self.failed.append(name)
            text = re.sub(r"\S*/(\d+\.json)", "the config", str(e))
            key = re.sub(r"`[^`]*`", "", text)
            print("FAIL %s\n     %s" % (name, "as before" if key == self.last else text.replace("\n", "\n     ")))
            self.last = key
        else:
            self.passed += 1

    def write(self, config):
        self.files += 1
        path = os.path.join(self.dir.name, "%d.json" % self.files)
        with open(path, "w") as f:
            f.write(config if isinstance(config, str) else json.dumps(config))
        return path

    def run(self, args):
        p = subprocess.run([self.program] + args, capture_output=True, text=True, timeout=60)
        return p.returncode, p.stdout, p.stderr.strip()

    def json(self, args):
        """The JSON that it prints, with exit 0, or a failure."""
        code, out, err = self.run(args + ["--format", "json"])
        if code:
            raise Failed("`%s` exits %d: %s" % (" ".join(args[:1] + args[2:]), code, err.splitlines()[0] if err else "nothing on stderr"))
        try:
            return json.loads(out)
        except ValueError as e:
            raise Failed("`%s` prints no JSON: %s" % (" ".join(args), e))

    def show(self, config):
        return self.json(["show", self.write(config)])

    def plan(self, config, context):
        return self.json(["plan", self.write(config), "--context", str(context), "--kv-dtype", "bf16"])


def letters(text):
    """`S5 F1`, and `(R1 S1){8}` should the pattern ever be folded so, as one letter a layer."""
    text = re.sub(r"\(([^()]*)\)\{(\d+)\}", lambda m: " ".join([m.group(1)] * int(m.group(2))), text)
    return "".join(x * int(n) for x, n in re.findall(r"([A-Za-z-])(\d+)", text))


def cache_of(shown, i):
    caches = shown["layers"][i]["caches"]
    if not caches:
        raise Failed("layer %d keeps no cache" % i)
    return caches[0]


def as_classes(shown, wanted):
    """The letters, an F read as the S that the class makes of it where its window is inert for reaching the context limit:
    only where S is wanted, for the class too makes F of a window that another key switches off."""
    out, limit = [], shown["model"]["context_limit"]
    for i, (letter, layer) in enumerate(zip(letters(shown["pattern"]), shown["layers"])):
        inert = any(c.get("window_inert") and limit and c["window"] >= limit for c in layer["caches"])
        out.append("S" if letter == "F" and inert and wanted[i:i + 1] == "S" else letter)
    return "".join(out)


def expect(what, expected, got, why=""):
    if expected != got:
        raise Failed("%s: expected %s, got %s%s" % (what, expected, got, "\n(%s)" % why if why else ""))


def expect_pattern(shown, expected, why="", indexed="I"):
    want, got = expected if " " in expected or expected[-1:].isdigit() else formulas.run_lengths(expected), shown["pattern"]
    if letters(want) != letters(got).replace("I", indexed):
        raise Failed("pattern: expected %s\n         got      %s%s" % (want, got, "\n(%s)" % why if why else ""))


def sizes(list_of_bytes):
    counts = {}
    for x in list_of_bytes:
        counts[x] = counts.get(x, 0) + 1
    return " + ".join("%d x %s" % (n, f"{x:,}") for x, n in sorted(counts.items()))


def expect_need(h, config, layers, context, ordered=True):
    """need against a formula; a difference is narrowed down to the layers that differ (to their sorted sizes, where the
    formula's layers do not stand in the model's order)."""
    plan = h.plan(config, context)
    want, got = formulas.need(layers, context), plan["bytes"]["need"]
    if want == got:
        return
    lines = ["need at %d tokens: expected %s, got %s (%+d)" % (context, f"{want:,}", f"{got:,}", got - want),
             "terms: " + formulas.words(layers)]
    mine = [layer.bytes(context) for layer in layers]
    its = [layer["need"] for layer in plan["layers"]]
    if not ordered:
        lines.append("sizes of layers: expected %s, got %s" % (sizes(mine), sizes(its)))
    elif len(mine) != len(its):
        lines.append("layers: expected %d, got %d" % (len(mine), len(its)))
    else:
        groups = {}
        for i, (a, b) in enumerate(zip(mine, its)):
            if a != b:
                groups.setdefault((a, b, layers[i].words()), []).append(i)
        for (a, b, text), where in list(groups.items())[:4]:
            lines.append("layers %s: %s B expected = %s, %s B got" % (
                ", ".join(map(str, where[:6])) + (" .. (%d)" % len(where) if len(where) > 6 else ""), f"{a:,}", text, f"{b:,}"))
    raise Failed("\n".join(lines))


def finish(h):
    print("%d passed, %d failed" % (h.passed, len(h.failed)))
    sys.exit(1 if h.failed or not h.passed else 0)
