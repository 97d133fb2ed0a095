#!/bin/sh
# tools/lint.sh format|tidy|cppcheck: silent and 0 when there is nothing to say. tidy and cppcheck read build/.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
format)
    git ls-files 'src/*.[ch]' 'kernels/*.[ch]' 'kernels/*.cu' 'kernels/*.cuh' 'tests/*.[ch]' |
        xargs clang-format --dry-run --Werror
    ;;
tidy)
    # one process a core; only what is compiled for the CPU has a command in the database
    git ls-files 'src/*.c' 'kernels/cpu/*.c' |
        xargs -P "$(nproc)" -n 6 clang-tidy --quiet --warnings-as-errors='*' -p build 2>/dev/null
    ;;
cppcheck)
    git ls-files 'src/*.c' 'kernels/cpu/*.c' |
        xargs cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
            --suppress=missingIncludeSystem --error-exitcode=1 -j "$(nproc)" -Isrc -I.
    ;;
*)
    echo "usage: tools/lint.sh format|tidy|cppcheck" >&2
    exit 2
    ;;
esac
