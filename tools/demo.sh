#!/bin/sh
# The main job from nothing: installs what is missing, builds, then plans models under engines, holds one engine's log
# against its plan, runs a model and compares.
set -eu
cd "$(dirname "$0")/.."
tools/install.sh
[ -f build/build.ninja ] || meson setup build >/dev/null
ninja -C build --quiet
kvatlas=build/src/cli/kvatlas
say() {
    printf '\n$ kvatlas %s\n\n' "$*"
    "$kvatlas" "$@"
}
# without a GPU the real geometry at reduced depth
depth="--depth 2"
[ -e /dev/nvidia0 ] && depth=""
say show microsoft/Phi-4-mini-instruct
say plan microsoft/Phi-4-mini-flash-reasoning --context 128k --engine exact,full
# does not fit under every engine: exit status 1
say fit google/gemma-3-27b-it --gpu h100 --sequences 1 --kv-cache-manager v1 \
    --engine vllm@0.20.0,vllm@0.25.1,vllm@0.33.0,sglang,llama.cpp,tensorrt-llm || [ $? -eq 1 ]
say check tests/data/engines/logs/vllm-qwen3.5-122b-tp2.log --model Qwen/Qwen3.5-122B-A10B
# the depth is words on purpose
# shellcheck disable=SC2086
say run microsoft/Phi-4-mini-instruct $depth --context 4k --prompt-length 128 --decode 8
say verify data/suites/quick.yaml
