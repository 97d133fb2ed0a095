#!/usr/bin/env python3
"""Golden tests of the command line: run.py BINARY [FILE.test | FOLDER ...]

A .test file is plain text. A paragraph is one test:

    # what the test says about the world, and where its numbers come from
    + hub/refs/main 0123\\n    before the commands: a file and what is in it (with \\n, \\x00, {9*x} for xxxxxxxxx), a copy
    + copy.json = models/...   of another file, a symbolic link
    + link -> target
    $ NO_COLOR=1 kvatlas plan models/phi4-mini-flash --context 128k    the command; also cat and sed
    < a line of its standard input; <= FILE takes all of it from a file
    ? 2                        its exit status; 0 when not written
    > a line of standard output, as it stands
    >~ a line as a regular expression
    >...                       any lines, also none
    ! !~ !...                  the same for standard error
    = bytes.need 693811200     standard output is JSON, and this is in it (a path, then JSON); a list has .N and .length
    =keys plan                 it is JSON with every key that docs promise: show, check, plan, plans, engines, fit, verify
    =line 2                    the checks that follow are of this line of standard output, by itself JSON

Standard output with neither > nor = must be empty, and so must standard error without !. Commands of a paragraph run
one after another in one temporary directory, which is also HOME and where models/ holds the configs of
tests/cli/models and data/ is tests/data. {hub} stands for the address of a server that plays the Hugging Face hub: hub.py.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from hub import Hub

HERE = os.path.dirname(os.path.abspath(__file__))

# The keys that others may rely on: docs/json.md.
MODEL = ["id", "source", "model_type", "architecture", "family", "context_limit", "dtype", "parameters", "weight_bytes"]
SHOW_CACHE = ["kind", "kv_heads", "k_dim", "v_dim", "window", "window_inert", "bytes_per_token", "state_bytes",
              "reads_layer"]
KEYS = {
    "show": {"": ["schema", "model", "pattern", "layers", "warnings"], "model": MODEL, "layers": ["index", "caches"],
             "layers.caches": SHOW_CACHE},
    "check": {"": ["schema", "engine", "model", "numbers", "explanation", "verdict"], "engine": ["id", "version"],
              "numbers": ["line", "quantity", "printed", "predicted", "difference", "verdict"]},
    "plan": {"": ["schema", "model", "engine", "deployment", "assumed", "bytes", "overpay_ratio", "layers", "pools",
                  "capacity", "prints", "gates", "references"],
             "model": MODEL, "engine": ["id", "version"],
             "bytes": ["naive", "need", "allocated", "overpay", "sharing_saved", "state"],
             "layers": ["index", "need", "allocated", "overpay", "reads_layer"],
             "pools": ["name", "layers", "block_tokens", "page_bytes", "blocks", "bytes"],
             "capacity": ["kv_budget_bytes", "tokens", "sequences_at_context", "max_context"]},
    "engines": {"": ["schema", "engines"],
                "engines": ["id", "name", "summary", "versions", "behaviours", "kv_types", "lines", "references"],
                "engines.versions": ["version", "date"], "engines.behaviours": ["name", "about", "values"],
                "engines.behaviours.values": ["since", "until", "value", "references"]},
    "fit": {"": ["schema", "model", "engine", "gpu", "fits", "context", "sequences", "kv_type", "ranks", "memory", "bytes",
                 "overpay_why", "capacity", "knobs", "sweep", "decode", "assumed", "warnings"],
            "model": MODEL, "engine": ["id", "version"],
            "memory": ["gpu_bytes", "memory_fraction", "weight_bytes", "activation_bytes", "graph_bytes", "other_bytes"],
            "bytes": ["need", "allocated", "overpay"],
            "capacity": ["kv_budget_bytes", "reserved_bytes", "tokens", "max_context", "limited_by_model",
                         "max_sequences", "refusal"],
            "knobs": ["flag", "value", "now", "cost"]},
    "verify": {"": ["schema", "device", "cases"],
               "cases": ["model", "policy", "context", "sequences", "kv_dtype", "predicted", "measured",
                         "live_cache_bytes", "difference_bytes", "process_tolerance_bytes", "levels", "verdict",
                         "explanation", "timing"],
               "cases.predicted": ["weights", "cache", "activations", "workspace", "process"],
               "cases.measured": ["weights", "cache", "activations", "workspace", "process"],
               "cases.levels": ["asked", "given", "lossless", "right"]},
}


def objects(value, path):
    """every object that a dotted path leads to, through lists"""
    for name in [part for part in path.split(".") if part]:
        found = []
        for item in value if isinstance(value, list) else [value]:
            if item[name] is None:  # of a case that could not run
                continue
            found += item[name] if isinstance(item[name], list) else [item[name]]
        value = found
    return value if isinstance(value, list) else [value]


def check_keys(document, what):
    if what == "plans":
        if document.get("schema") != "kvatlas/plans/1":
            return "schema is %r" % document.get("schema")
        problems = [check_keys(plan, "plan") for plan in document["plans"]]
        return next((problem for problem in problems if problem), None)
    if document.get("schema") != "kvatlas/%s/1" % what:
        return "schema is %r" % document.get("schema")
    for path, keys in KEYS[what].items():
        for item in objects(document, path):
            missing = [key for key in keys if key not in item]
            if missing:
                return "%s lacks %s" % (path or "the document", ", ".join(missing))
    return None


def look_up(document, path):
    for part in path.split("."):
        if part == "length":
            document = len(document)
        else:
            document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def match_lines(expected, lines):
    """None when the lines are as expected, else what is wrong; expected: (kind, text), kind '', '~' or '...'"""
    reach = {0}  # lines of the output that some reading of the expectations so far has used
    for number, (kind, text) in enumerate(expected):
        if kind == "...":
            reach = set(range(min(reach), len(lines) + 1))
            continue
        step = {at + 1 for at in reach if at < len(lines) and
                (re.fullmatch(text, lines[at]) if kind == "~" else lines[at] == text)}
        if not step:
            return "nothing matches expected line %d: %s" % (number + 1, text)
        reach = step
    return None if len(lines) in reach else "more lines than expected, from %r on" % lines[min(reach)]


class Command:
    def __init__(self, text, line):
        self.text, self.line, self.status = text, line, 0
        self.out, self.err, self.json = [], [], []
        self.input, self.input_file = b"", None

    def expect(self, line):
        if line.startswith("<="):
            self.input_file = line[2:].strip()
            return True
        if line.startswith("<"):
            self.input += re.sub(r"^ ", "", line[1:]).encode() + b"\n"
            return True
        for mark, lines in ((">", self.out), ("!", self.err)):
            if line.startswith(mark):
                kind = "..." if line[1:4] == "..." else "~" if line[1:2] == "~" else ""
                lines.append((kind, re.sub(r"^ ", "", line[1 + len(kind):])))
                return True
        if line.startswith("?"):
            self.status = int(line[1:])
        elif line.startswith("="):
            self.json.append(line[1:].strip() if line.startswith("= ") else line)
        else:
            return False
        return True

    def run(self, binary, folder):
        words = shlex.split(self.text)
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("KVATLAS", "HF_", "HUGGINGFACE", "XDG_"))}
        environment["HOME"] = folder
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        if not words or words[0] not in ("kvatlas", "cat", "sed"):
            return "a command is kvatlas, cat or sed"
        if words[0] == "kvatlas":
            words[0] = binary
        given = self.input
        if self.input_file:
            with open(os.path.join(folder, self.input_file), "rb") as file:
                given = file.read()
        done = subprocess.run(words, cwd=folder, env=environment, input=given, capture_output=True, timeout=60,
                              check=False)
        return self.judge(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def judge(self, status, out, err):
        problem = None
        if status != self.status:
            problem = "exit status %d, expected %d" % (status, self.status)
        if problem is None and (self.out or not self.json):
            problem = match_lines(self.out, out.splitlines())
        if problem is None:
            problem = match_lines(self.err, err.splitlines())
        if problem is None and self.json:
            try:
                problem = self.judge_json(out)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                problem = "JSON: %s: %s" % (type(error).__name__, error)
        if problem is None:
            return None
        return "%s\n    $ %s\n%s%s" % (problem, self.text, "".join("    > %s\n" % line for line in out.splitlines()),
                                       "".join("    ! %s\n" % line for line in err.splitlines()))

    def judge_json(self, out):
        document = None if self.json[0].startswith("=line") else json.loads(out)
        for check in self.json:
            if check.startswith("=line"):
                document = json.loads(out.splitlines()[int(check.split()[1]) - 1])
                continue
            if check.startswith("=keys"):
                problem = check_keys(document, check.split()[1])
                if problem:
                    return problem
                continue
            path, _, wanted = check.partition(" ")
            found = look_up(document, path)
            if found != json.loads(wanted):
                return "%s is %s, expected %s" % (path, json.dumps(found), wanted)
        return None


def read_tests(path, hub):
    """[(title, files, [Command])] of one file"""
    tests, title, files, commands = [], "", [], []
    with open(path, encoding="utf-8") as file:
        lines = file.read().replace("{hub}", hub).splitlines() + [""]
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            title = title or line[1:].strip()
        elif line.startswith("+"):
            files.append(line[1:].strip())
        elif line.startswith("$"):
            commands.append(Command(line[1:].strip(), number))
        elif line.strip() == "":
            if commands:
                tests.append((title or commands[0].text, files, commands))
            title, files, commands = "", [], []
        elif not commands or not commands[-1].expect(line):
            sys.exit("%s:%d: not a line of a test: %s" % (path, number, line))
    return tests


def make_file(folder, line):
    """what a line with + asks for"""
    name, _, content = line.partition(" ")
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if content.startswith("-> "):
        os.symlink(content[3:], path)
    elif content.startswith("= "):
        shutil.copy(os.path.join(folder, content[2:]), path)
    else:
        with open(path, "wb") as file:
            content = content.encode("latin-1").decode("unicode_escape").encode("latin-1")
            file.write(re.sub(rb"\{(\d+)\*(.)\}", lambda match: int(match.group(1)) * match.group(2), content))


def run_test(binary, files, commands):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(HERE, "models"), os.path.join(folder, "models"))
        os.symlink(os.path.join(os.path.dirname(HERE), "data"), os.path.join(folder, "data"))
        for line in files:
            make_file(folder, line)
        for command in commands:
            problem = command.run(binary, folder)
            if problem:
                return "line %d: %s" % (command.line, problem)
    return None


def test_files(paths):
    """the .test files that are named, or that lie below a folder that is named"""
    for path in paths:
        if os.path.isdir(path):
            yield from sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names
                              if name.endswith(".test"))
        else:
            yield path


def main(binary, *paths):
    binary = os.path.abspath(binary)
    passed = failed = 0
    with Hub() as hub:
        for path in test_files(paths or [HERE]):
            for title, files, commands in read_tests(path, hub.address):
                problem = run_test(binary, files, commands)
                if problem is None:
                    passed += 1
                else:
                    failed += 1
                    print("FAILED %s: %s\n  %s" % (os.path.basename(path), title, problem))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
