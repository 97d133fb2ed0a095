#!/usr/bin/env python3
"""Reduces recorded llama.cpp contexts to what tests/unit/test_gguf_layers.c compares.

llamacpp_layers.py llamacpp-allocations.jsonl > tests/data/llamacpp-layers.jsonl

One record a model: the keys of its header, the pools that a release logged (the newest that has a record with f16 caches
of one sequence), and the exact bytes of the context where they were recorded.
"""
import json
import re
import sys

RELEASES = {"v0.5.0": 0, "v0.4.0": 1, "b8390": 2}
LINE = re.compile(
    r"^llama_(kv_cache|memory_recurrent)[a-z_]*: size = +[\d.]+ MiB \( *(\d+) cells, +(\d+) layers, +\d+(?:/(\d+))? seqs"
    r"(?:  0 rs_seq)?\), [KR] \((\w+)\): +([\d.]+) MiB, [VS] \((\w+)\): +([\d.]+) MiB")
# Which pool each line is of, in their order.
POOLS = {"deepseek4": ["base", "swa", "csa", "hca", "lid"], "deepseek32": ["base", "index"],
         "glm-dsa": ["base", "index"], "minimax-m3": ["base", "index"]}


def lines(record):
    return [match for match in map(LINE.match, record["size_lines"]) if match]


def rank(record):
    request = record["request"]
    return (record["llama_cpp"] not in RELEASES, record["created"] is not True, request["type_k"] != "f16",
            request["type_k"] != request["type_v"], RELEASES.get(record["llama_cpp"], 9),
            request["flash_attn"] == "off", request["n_seq_max"] != 1, request["kv_unified"] != 0, -request["n_ctx"])


def pools(record):
    names = iter(POOLS.get(record["arch"], ["base", "swa"]))
    found = []
    for match in lines(record):
        function, cells, layers, streams, type_k, k, type_v, v = match.groups()
        if function == "memory_recurrent":
            found.append({"pool": "state", "rows": int(cells), "layers": int(layers), "R": k, "S": v})
        else:
            found.append({"pool": next(names), "cells": int(cells), "streams": int(streams or 1),
                          "layers": int(layers), "type_k": type_k, "type_v": type_v, "K": k, "V": v})
    return found


def reduce(record):
    meta = record["meta"]
    made = {"model": record["model"], "llama_cpp": record["llama_cpp"],
            "request": {key: record["request"][key] for key in ("n_ctx", "n_seq_max", "n_ubatch", "kv_unified", "flash_attn")},
            "meta": meta, "pools": pools(record)}
    if record.get("context_bytes"):
        made["bytes"] = sum(record["context_bytes"].values())
    # where the engine keeps something else than the model needs
    if record["arch"] == "phi3":
        made["engine"] = "ignores the window"
    if record["arch"] == "deepseek2" and "deepseek2.attention.key_length_mla" not in meta:
        made["engine"] = "expands the latent"
    return made


def main():
    models = {}
    with open(sys.argv[1]) as file:
        for line in file:
            record = json.loads(line)
            if record["created"] is False or record["request"]["swa_full"] != 0 or not lines(record):
                continue
            # the same model was also recorded with a made-up embedding length
            key = (record["arch"], record["model"])
            order = (-record["meta"][record["arch"] + ".embedding_length"], rank(record))
            if key not in models or order < models[key][0]:
                models[key] = (order, record)
    for key in sorted(models):
        print(json.dumps(reduce(models[key][1]), separators=(",", ":")))


main()
