#!/bin/sh
# The main job from nothing: installs what is missing, builds, then plans two models, runs them and compares.
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
# the depth is words on purpose
# shellcheck disable=SC2086
say run microsoft/Phi-4-mini-instruct $depth --context 4k --prompt-length 128 --decode 8
say verify data/suites/quick.yaml
