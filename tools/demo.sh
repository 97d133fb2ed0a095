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
say show microsoft/Phi-4-mini-flash-reasoning
say plan microsoft/Phi-4-mini-flash-reasoning --context 128k --engine exact,full
say verify data/suites/quick.yaml
