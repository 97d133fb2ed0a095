#!/usr/bin/env python3
"""kvatlas check against published logs: every record of tests/data/engines/engine-logs.jsonl.

    run.py KVATLAS [WORD...]     only the records whose ids hold one of the words; -v prints what was compared

Each record's lines go to `kvatlas check` on standard input, with the model and the flags that cases.py states. The
record is reproduced when every number it lists is printed so: `match`, or `given` where the log alone can tell it, and at
least one of them is a match. Lines that a record holds shortened are written out as the engine prints them (restore()).
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

from cases import CASES, NOT_REPRODUCED

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


def records():
    with open(os.path.join(DATA, "engines", "engine-logs.jsonl"), encoding="utf-8") as file:
        return {record["id"]: record for record in map(json.loads, file)}


# ---------------------------------------------------------------- lines as the engine prints them

KV = {"b5415": "llama_kv_cache_unified: KV self size  = {total:7.2f} MiB, ",
      "b5640": "llama_kv_cache_unified: size = {total:7.2f} MiB ({cells:6d} cells, {layers:3d} layers, {seqs:2d} seqs), ",
      "b6122": "llama_kv_cache_unified: size = {total:7.2f} MiB ({cells:6d} cells, {layers:3d} layers, {seqs:2d}/{streams} seqs), "}
KV_NOW = KV["b6122"].replace("_unified", "")


def llamacpp_line(pool, version, unified):
    """The line of one pool. The K and V that a record lacks are left out: a line that was cut."""
    seqs = pool.get("seqs") or 1
    if pool["pool"] == "recurrent":
        text = "llama_memory_recurrent: size = %7.2f MiB (%6d cells, %3d layers, %2d seqs" % (
            pool["total_MiB"], pool["cells"], pool["layers_printed"], pool["seqs"])
        text += "  0 rs_seq), " if version >= "v" else "), "
        if pool["R_MiB"] is not None:
            text += "R (f32): %7.2f MiB, S (f32): %7.2f MiB" % (pool["R_MiB"], pool["S_MiB"])
            text += ", P (f32):    0.00 MiB" if version >= "v" else ""
        return text
    text = KV.get(version, KV_NOW).format(total=pool["total_MiB"], cells=pool["cells"], layers=pool["layers"],
                                          seqs=4 if unified else seqs, streams=1)
    if pool["K_MiB"] is not None:
        text += "K (%s): %7.2f MiB, V (%s): %7.2f MiB" % (pool["type_k"], pool["K_MiB"], pool["type_v"], pool["V_MiB"])
    return text


def restore(record, case):
    """The record's lines; those that it holds in words of its own are put back into the engine's."""
    printed, version = record["printed"], case["engine"].partition("@")[2]
    if record["id"].startswith("lcpp"):
        buffers = [line for line in record["log"] if "buffer size" in line]
        if buffers:
            return ["llama_kv_cache: " + line for line in buffers] + [
                llamacpp_line(pool, version, False) for pool in printed if pool["pool"] == "recurrent"]
        if version == "b1000":
            return ["llama_model_load_internal: kv self size  = %7.2f MB" % printed[0]["total_MiB"]]
        return [llamacpp_line(pool, version, "-kvu" in case["flags"]) for pool in printed]
    if record["id"].startswith("ik"):
        return ["llama_new_context_with_model: " + line.replace("kv^T: 1728.0 MiB (f16)", "kv^T (f16): 1728.00 MiB")
                for line in record["log"]]
    if "needed_GiB" in printed:
        return ["To serve at least one request with the model's max seq len (%d), (%s GiB KV cache is needed, which is "
                "larger than the available KV cache memory (%s GiB). Based on the available memory, the estimated "
                "maximum model length is %d. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`" % (
                    printed["max_model_len"], printed["needed_GiB"], printed["available_GiB"], printed["estimated_max_len"])]
    return [line.replace("dtype: ... ", "dtype: torch.float8_e4m3fn, ") for line in record["log"][:case.get("lines")]]


# ---------------------------------------------------------------- what a record states

# key of `printed` -> what the log's line calls it
QUANTITIES = {
    "tokens": ["tokens"], "K_GB": ["k_gib"], "V_GB": ["v_gib"], "KV_GB": ["kv_gib"], "mamba_slots": ["slots"],
    "conv_GB": ["conv_gib"], "ssm_GB": ["ssm_gib"], "full_tokens": ["full"], "swa_tokens": ["swa"],
    "kv_GiB": ["budget", "gib", "bytes"], "concurrency": ["concurrency"], "max_model_len": ["context"],
    "needed_GiB": ["needed"], "available_GiB": ["budget"], "estimated_max_len": ["estimate"], "gpu_blocks": ["blocks"],
    "total_MiB": ["mib"], "ckv_MiB": ["k_mib"], "kvT_MiB": ["v_mib"], "cells": ["cells"], "layers": ["layers"],
    "layers_printed": ["layers"], "K_MiB": ["k_mib"], "V_MiB": ["v_mib"], "R_MiB": ["r_mib"], "S_MiB": ["s_mib"],
}
# worked out by the record's author, or not of the lines it holds
DERIVED = {"tokens_derived", "num_gpu_blocks", "pool", "type_k", "type_v", "seqs", "draft_K_GB", "draft_V_GB",
           "mamba_MB_per_slot"}


def stated(record, lines, only=None):
    """(quantities that may be called so, value) of everything the record's lines print"""
    printed = record["printed"] if isinstance(record["printed"], list) else [record["printed"]]
    text = "\n".join(lines).replace(",", "")
    for part in printed if only is None else [only]:
        for key, value in part.items():
            if key in DERIVED or value is None:
                continue
            forms = {str(value), "%.2f" % value if isinstance(value, float) else str(value)}
            if key == "kv_cache":
                yield ["size"], float(value.split()[0])
            elif any(re.search(r"(?<![\d.])%s(?![\d.]*\d)" % re.escape(form), text) for form in forms) or (
                    key == "kv_GiB" and "Available memory" in text):
                yield QUANTITIES[key], value


def find(numbers, names, value):
    for number in numbers:
        if number["quantity"] in names and (number["printed"] == value or number["quantity"] == "bytes"):
            return number
    return None


# ---------------------------------------------------------------- one record

def gguf(path, header):
    """A file that holds nothing but a header: the keys of tests/data/engines/models/*.header.json."""
    def text(string):
        return struct.pack("<Q", len(string)) + string.encode()
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(header)))
        for key, value in header.items():
            file.write(text(key) + (struct.pack("<I", 8) + text(value) if isinstance(value, str) else
                                    struct.pack("<II", 4, value)))


class Runner:
    def __init__(self, binary, folder, verbose):
        self.binary, self.folder, self.verbose = binary, folder, verbose

    def model(self, name):
        if name.endswith(".gguf"):
            path = os.path.join(self.folder, name)
            with open(os.path.join(DATA, "engines", "models", name.replace(".gguf", ".header.json")), encoding="utf-8") as file:
                gguf(path, json.load(file))
            return path
        return os.path.join(DATA, name) if name.endswith(".json") else name

    def check(self, lines, case, flags):
        command = [self.binary, "check", "-", "--model", self.model(case["model"]), "--engine", case["engine"],
                   "--format", "json"] + case["flags"] + flags
        done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120,
                              check=False)
        if self.verbose:
            print(" ".join(command[1:]), *lines, done.stdout, done.stderr, sep="\n")
        return done

    def problem(self, record, case, lines, flags, wanted):
        done = self.check(lines, case, flags)
        if done.returncode not in (0, 1):
            return "exit %d: %s" % (done.returncode, done.stderr.strip())
        result = json.loads(done.stdout)
        for names, value in wanted:
            number = find(result["numbers"], names, value)
            if number is None:
                return "%s %s is not read from the log" % ("/".join(names), value)
            if number["verdict"] not in ("match", "given"):
                return "%s: printed %s, predicted %s (%s); %s" % (number["quantity"], value, number["predicted"],
                                                                  number["verdict"], result["explanation"][:3])
        if done.returncode != 0 or result["verdict"] != "match":
            wrong = [n for n in result["numbers"] if n["verdict"] == "mismatch"]
            return "verdict %s: %s" % (result["verdict"], [(n["quantity"], n["printed"], n["predicted"]) for n in wrong])
        return None

    def reproduce(self, all_records, record, case):
        if "each" in case:  # contexts of several starts
            for pool, line in zip(record["printed"], restore(record, case)):
                problem = self.problem(record, case, [line], case["each"].format(**pool).split(),
                                       list(stated(record, [line], pool)))
                if problem:
                    return problem
            return None
        lines = restore(record, case)
        if "also" in case:  # the two pools of one start
            lines = lines + all_records[case["also"]]["log"] if record["id"] < case["also"] else \
                all_records[case["also"]]["log"] + lines
        wanted = list(stated(record, lines))
        return self.problem(record, case, lines, [], wanted) if wanted else "nothing to compare"


# ---------------------------------------------------------------- hostile logs

MOST_KIB = 256 * 1024  # of memory, sanitizers included

CAPACITY = b"Available KV cache memory: 18.69 GiB\nGPU KV cache size: 136,080 tokens\n"


def hostile():
    """(name, chunks of the log, exit status) of logs that could take memory or time without end"""
    noise = bytes(range(256)) * 4096
    yield "a line of 100 MB", [b"a" * 1000000] * 100 + [b"\n", CAPACITY], 0
    yield "100 MB of noise", [noise] * 100 + [b"\n", CAPACITY], 0
    yield "100 MB of zeros", [bytes(1000000)] * 100 + [b"\n", CAPACITY], 0
    yield "a million of the same lines", [CAPACITY * 1000] * 500, 0
    yield "a line cut at every place", [b"".join(CAPACITY[:at] + b"\n" for at in range(len(CAPACITY))) + CAPACITY], 0
    yield "brackets without end", [b"non-default args: " + b"{'a': (" * 8000 + b"\n", CAPACITY], 0
    yield "more numbers than one start prints", [
        b"".join(b"[rank%d] GPU KV cache size: %d tokens\n" % (n % 7, n) for n in range(200000))], 2


def hostile_problem(binary, chunks, status):
    command = [binary, "check", "-", "--model", os.path.join(DATA, "engines", "models", "qwen3-8b.json"), "--engine",
               "vllm@0.10.0"]
    with tempfile.TemporaryFile() as log:
        for chunk in chunks:
            log.write(chunk)
        log.seek(0)
        process = subprocess.Popen(command, stdin=log, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode != status:
        return "exit %d, expected %d" % (process.returncode, status)
    if usage.ru_maxrss > MOST_KIB:
        return "%d KiB of memory" % usage.ru_maxrss
    return None


def main(binary, *words):
    all_records = records()
    chosen = [word for word in words if word != "-v"]
    passed = failed = agreeing = agreeing_reproduced = 0
    missing = set(all_records) - set(CASES) - set(NOT_REPRODUCED)
    twice = set(CASES) & set(NOT_REPRODUCED)
    for name in sorted(missing | twice):
        print("FAILED %s: in neither table, or in both" % name)
        failed += 1
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(os.path.abspath(binary), folder, "-v" in words)
        for name, record in all_records.items():
            agrees = isinstance(record["check"], dict) and record["check"].get("agrees") is True
            agreeing += agrees
            if name not in CASES or chosen and not any(word in name for word in chosen):
                continue
            problem = runner.reproduce(all_records, record, CASES[name])
            if problem:
                failed += 1
                print("FAILED %s (%s): %s" % (name, CASES[name]["engine"], problem))
            else:
                passed += 1
                agreeing_reproduced += agrees
    for name, chunks, status in hostile() if not chosen else ():
        problem = hostile_problem(os.path.abspath(binary), chunks, status)
        failed += problem is not None
        if problem:
            print("FAILED %s: %s" % (name, problem))
    if not chosen:
        print("%d records: %d reproduced to the digit (%d of the %d whose own check agrees), %d not, each with its reason" % (
            len(all_records), passed, agreeing_reproduced, agreeing, len(NOT_REPRODUCED)))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
