#!/usr/bin/env python3
"""Write tests/data/engines/vllm-golden.jsonl: what vLLM's own planner says, release by release.

usage: make_vllm.py SOURCES [--all]

SOURCES/VERSION/vllm/... are the Python files of each release: unpack the sdist of every release (`pip download vllm==V
--no-deps --no-binary :all:`, or the .tar.gz that the package index lists); 0.15.0 and 0.15.1 have wheels only.  Nothing
of them is installed, and torch is not needed (see vllm_sources.py).  With --all every case is run at every release and
written to the standard output, to look at.

A line: version, name, model (an id of data/models, else a name of vllm_models.py), deployment (in the words of vLLM's
flags; available_bytes is what its profiling run left for the cache, for each rank), layers (before tensor parallelism)
and result: groups (decoder layers, block size, page bytes and blocks of one request; a mixed group holds several page
sizes), num_blocks, allocated_bytes of each rank, tokens and concurrency as reported, lines (all that was logged), error.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODELS = os.path.join(ROOT, "data", "models")
GIB = 2 ** 30
# Releases whose planner differs from the one before; the others get three cases.
CHANGED = {"0.10.0", "0.10.1", "0.10.2", "0.11.0", "0.11.1", "0.12.0", "0.13.0", "0.14.0", "0.15.0", "0.17.0", "0.18.0", "0.19.0",
           "0.20.0", "0.20.1", "0.21.0", "0.22.0", "0.23.0", "0.24.0", "0.25.0", "0.26.0", "0.27.0", "0.28.0", "0.29.0", "0.30.0",
           "0.31.0", "0.32.0", "0.33.0"}
WIDE = {"0.10.2", "0.11.0", "0.12.0", "0.15.0", "0.19.1", "0.20.1", "0.25.0", "0.27.0", "0.28.0", "0.30.0", "0.33.0"}


def case(name, model, context, batch, memory, since="0.10.0", until="99", **deployment):
    return {"name": name, "model": model, "since": since, "until": until, "deployment": {
        "max_model_len": context, "max_num_batched_tokens": batch, "available_bytes": int(memory * GIB), **deployment}}


LLAMA, GEMMA3, GPT_OSS = "meta-llama/Llama-3.1-8B-Instruct", "google/gemma-3-27b-it", "openai/gpt-oss-20b"
PHI4, DEEPSEEK, NEMOTRON = "microsoft/Phi-4-mini-instruct", "deepseek-ai/DeepSeek-V3", "nvidia/Nemotron-H-8B-Base-8K"
SCOUT, MIMO, QWEN35 = "meta-llama/Llama-4-Scout-17B-16E-Instruct", "XiaomiMiMo/MiMo-V2-Flash", "Qwen/Qwen3.5-27B"
GEMMA4, FALCON, JAMBA = "nvidia/Gemma-4-31B-IT-NVFP4", "tiiuae/Falcon-H1-7B-Instruct", "ai21labs/AI21-Jamba-1.5-Mini"
FLASH, KIMI, V4 = "microsoft/Phi-4-mini-flash-reasoning", "moonshotai/Kimi-Linear-48B-A3B-Instruct", "deepseek-ai/DeepSeek-V4-Flash"

V0 = [  # the first engine, which 0.10.0 to 0.10.2 still hold: the only one that runs this model
    case("phi-4-mini-flash", FLASH, 262144, 8192, 40, until="0.10.2"),
    case("phi-4-mini-flash-tp2", FLASH, 32768, 8192, 10, until="0.10.2", tp=2),
    case("phi-4-mini-flash-too-small", FLASH, 262144, 8192, 8, until="0.10.2"),
]
EVERY = [  # every release
    case("llama-8b", LLAMA, 131072, 8192, 40),
    case("gemma-3-27b", GEMMA3, 131072, 8192, 40),
    case("phi-4-mini", PHI4, 131072, 2048, 24),
]
CORE = [  # every release whose planner changed
    case("llama-8b-exact-fit", LLAMA, 131072, 8192, 16),
    case("gpt-oss-20b", GPT_OSS, 131072, 8192, 40),
    case("gemma-3-27b-hybrid-off", GEMMA3, 131072, 8192, 40, hybrid_manager=False),
    case("gemma-3-27b-too-small", GEMMA3, 131072, 8192, 4),
    case("gemma-3-27b-pp2", GEMMA3, 131072, 8192, 40, pp=2),
    case("llama-8b-override", LLAMA, 131072, 8192, 40, num_gpu_blocks_override=6000),
    case("nemotron-h-8b", NEMOTRON, 8192, 8192, 40, prefix_caching=False),
    case("gemma-3-27b-auto-fit", GEMMA3, 131072, 8192, 8, since="0.14.0", auto_fit=True),
    case("qwen3.5-27b", QWEN35, 32768, 8192, 70, since="0.17.0", prefix_caching=False),
    case("gemma-4-31b", GEMMA4, 131072, 2048, 50, since="0.19.1"),
]
MORE = [  # some releases
    case("llama-8b-fp8", LLAMA, 131072, 8192, 40, kv_type="fp8"),
    case("llama-8b-tp16", LLAMA, 131072, 8192, 40, tp=16),
    case("llama-8b-odd-bytes", LLAMA, 32768, 2048, 12345678901 / GIB),
    case("llama-8b-too-small", LLAMA, 131072, 8192, 8),
    case("llama-8b-no-memory", LLAMA, 131072, 8192, 0),
    case("llama-8b-override-small", LLAMA, 131072, 8192, 40, num_gpu_blocks_override=600),
    case("llama-8b-override-large", LLAMA, 131072, 8192, 4, num_gpu_blocks_override=9000),
    case("llama-8b-pp3", LLAMA, 131072, 8192, 40, pp=3),
    case("llama-8b-auto-fit", LLAMA, 131072, 8192, 4, since="0.14.0", auto_fit=True),
    case("llama-8b-auto-fit-whole", LLAMA, 131072, 8192, 40, since="0.14.0", auto_fit=True),
    case("llama-8b-auto-fit-nothing", LLAMA, 131072, 8192, 1 / 1024, since="0.14.0", auto_fit=True),
    case("llama-8b-nvfp4", LLAMA, 131072, 8192, 40, since="0.21.0", kv_type="nvfp4"),
    case("mistral-7b-v0.1", "mistral-7b-v0.1", 32768, 8192, 20),
    case("phi-3-mini-4k", "microsoft/Phi-3-mini-4k-instruct", 4096, 2048, 20),
    case("ministral-8b", "mistralai/Ministral-8B-Instruct-2410", 32768, 8192, 20),
    case("gemma-2-9b", "google/gemma-2-9b-it", 8192, 2048, 20),
    case("gemma-3-4b", "google/gemma-3-4b-it", 131072, 8192, 60),
    case("gemma-3-27b-short", GEMMA3, 4096, 8192, 40),
    case("gemma-3-27b-tp2", GEMMA3, 131072, 16384, 60, tp=2),
    case("gemma-3-27b-block-64", GEMMA3, 131072, 8192, 40, block_size=64),
    case("gemma-3-27b-int8", GEMMA3, 131072, 8192, 40, since="0.20.0", kv_type="int8_per_token_head"),
    case("gemma-3-27b-synchronous", GEMMA3, 131072, 8192, 40, since="0.26.0", **{"async": False}),
    case("gemma-3-27b-pp2-auto-fit", GEMMA3, 131072, 8192, 4, since="0.14.0", pp=2, auto_fit=True),
    case("gpt-oss-20b-eagle", "gpt-oss-20b-eagle", 131072, 8192, 40),
    case("gpt-oss-120b", "openai/gpt-oss-120b", 131072, 8192, 10),
    case("gemma-3n-e2b", "google/gemma-3n-E2B-it", 32768, 8192, 20),
    case("gemma-3n-e4b", "gemma-3n-e4b", 32768, 8192, 40),
    case("gemma-4-e2b", "google/gemma-4-E2B-it", 32768, 8192, 10, since="0.19.1"),
    case("gemma-4-31b-pages-differ", GEMMA4, 131072, 2048, 50, until="0.11.2"),  # no release has both; the pages do not unify
    case("gemma-4-26b", "google/gemma-4-26B-A4B", 131072, 8192, 20, since="0.19.1"),
    case("exaone-4-32b", "LGAI-EXAONE/EXAONE-4.0-32B", 131072, 8192, 30),
    case("llama-4-scout-hybrid-on", SCOUT, 131072, 8192, 40),
    case("llama-4-scout-hybrid-off", SCOUT, 131072, 8192, 40, hybrid_manager=False),
    case("deepseek-v3", DEEPSEEK, 163840, 8192, 40, block_size=64),
    case("deepseek-v3-dcp8", DEEPSEEK, 163840, 8192, 40, since="0.10.2", block_size=64, dcp=8, tp=8),
    case("deepseek-v3.2-fp8", "deepseek-v3.2", 163840, 8192, 40, since="0.11.0", block_size=64, kv_type="fp8_ds_mla"),
    case("glm-5", "zai-org/GLM-5", 202752, 8192, 60, since="0.17.0", block_size=64),
    case("deepseek-v4-flash", V4, 131072, 8192, 40, since="0.20.0", block_size=256, kv_type="fp8"),
    case("deepseek-v4-flash-long", V4, 1048576, 8192, 40, since="0.20.0", block_size=256, kv_type="fp8"),
    case("deepseek-v4-flash-too-small", V4, 1048576, 8192, 1, since="0.20.0", block_size=256, kv_type="fp8"),
    case("mimo-v2-flash-hybrid-on", MIMO, 131072, 8192, 40, since="0.14.0"),
    case("mimo-v2-flash-hybrid-off", MIMO, 131072, 8192, 40, since="0.14.0", hybrid_manager=False),
    case("whisper-large-v3", "whisper-large-v3", 448, 2048, 40, since="0.10.2"),
    case("qwen3-next-80b", "qwen3-next-80b", 262144, 8192, 40, since="0.10.2", prefix_caching=False),
    case("qwen3-next-80b-align", "qwen3-next-80b", 262144, 8192, 40, since="0.15.0", prefix_caching=True),
    case("qwen3-next-80b-fp32", "qwen3-next-80b-fp32", 262144, 8192, 40, since="0.17.0", prefix_caching=False),
    case("qwen3-next-80b-mtp2", "qwen3-next-80b-mtp", 131072, 8192, 40, since="0.15.0", spec_tokens=2, prefix_caching=False),
    case("qwen3.5-27b-align", QWEN35, 131072, 8192, 70, since="0.17.0", prefix_caching=True),
    case("qwen3.5-27b-tp4", QWEN35, 262144, 8192, 60, since="0.17.0", tp=4, prefix_caching=False),
    case("nemotron-h-8b-tp8", NEMOTRON, 8192, 8192, 40, tp=8, prefix_caching=False),
    case("nemotron-h-8b-pp2", NEMOTRON, 8192, 8192, 40, since="0.11.0", pp=2, prefix_caching=False),
    case("nemotron-h-8b-cached", NEMOTRON, 8192, 8192, 40, since="0.12.0", prefix_caching=True),
    case("falcon-h1-7b", FALCON, 131072, 8192, 40, prefix_caching=False),
    case("falcon-h1-7b-cached", FALCON, 131072, 8192, 40, since="0.12.0", prefix_caching=True),
    case("granite-4-h-micro", "ibm-granite/granite-4.0-h-micro", 131072, 8192, 30, prefix_caching=False),
    case("jamba-1.5-mini", JAMBA, 262144, 8192, 40, since="0.10.1", prefix_caching=False),
    case("lfm2-8b", "LiquidAI/LFM2-8B-A1B", 128000, 8192, 20, since="0.11.1", prefix_caching=False),
    case("kimi-linear-48b", KIMI, 131072, 8192, 40, since="0.11.2", prefix_caching=False),
    case("kimi-linear-48b-align", KIMI, 131072, 8192, 40, since="0.15.0", prefix_caching=True),
    case("falcon-mamba-7b", "tiiuae/falcon-mamba-7b", 8192, 8192, 20, since="0.10.1", prefix_caching=False),
]


def parts(version):
    return [int(part) for part in version.split(".")]


def runner_v2(version, model):
    """Whether the release takes its second model runner by default (config/vllm.py): more batches in flight with pp > 1."""
    return parts(version) >= [0, 29, 0] or (parts(version) >= [0, 25, 0] and model not in (NEMOTRON, QWEN35))


def run(sources, version, cases):
    wanted = []
    for c in cases:
        if parts(c["since"]) <= parts(version) <= parts(c["until"]):
            deployment = dict(c["deployment"])
            if deployment.get("pp", 1) > 1 and parts(version) >= [0, 26, 0]:
                deployment["runner_v2"] = runner_v2(version, c["model"])
            wanted.append(json.dumps({"name": c["name"], "model": c["model"], "deployment": deployment}))
    command = [sys.executable, os.path.join(HERE, "vllm_planner.py"), os.path.join(sources, version), version, MODELS]
    done = subprocess.run(command, input="\n".join(wanted), capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(wanted):
        sys.exit(f"{version}: {done.stderr}")
    return lines


def main():
    sources, every = sys.argv[1], "--all" in sys.argv
    versions = sorted((v for v in os.listdir(sources) if parts(v) >= [0, 10, 0]), key=parts)
    table = []
    for version in versions:
        cases = V0 + EVERY + (CORE if every or version in CHANGED else []) + (MORE if every or version in WIDE else [])
        table += run(sources, version, cases)
    if every:
        print("\n".join(table))
        return
    path = os.path.join(ROOT, "tests", "data", "engines", "vllm-golden.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(table) + "\n")
    print(f"{len(table)} lines of {len(versions)} releases: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
