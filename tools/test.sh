#!/bin/sh
# Builds and runs every test. The last line is "N passed, N failed".
#   tools/test.sh        the tests
#   tools/test.sh --ci   also: warnings as errors with gcc and clang, AddressSanitizer and UBSan, valgrind,
#                        clang-format, clang-tidy, cppcheck, shellcheck
set -u
cd "$(dirname "$0")/.." || exit 1
ci=false
[ "${1:-}" = --ci ] && ci=true
results=$(mktemp)
trap 'rm -f "$results"' EXIT

# record NAME COMMAND...: one line in the tally for a check that is not a test program
record() {
    name=$1
    shift
    echo "== $name"
    if "$@"; then
        echo "check $name passed" >>"$results"
    else
        echo "check $name failed" >>"$results"
    fi
}

# configure DIR OPTIONS...
configure() {
    dir=$1
    shift
    [ -f "$dir/build.ninja" ] || meson setup "$dir" "$@" >/dev/null
}

# run_tests DIR NAME [meson test options]: every test program's own count goes into the tally
run_tests() {
    dir=$1
    name=$2
    shift 2
    echo "== $name"
    if ninja -C "$dir" --quiet; then
        meson test -C "$dir" --no-rebuild --print-errorlogs "$@"
        python3 tools/tally.py count "$name" "$dir/meson-logs" >>"$results"
    else
        echo "check $name-build failed" >>"$results"
    fi
}

packages="check"
$ci && packages="$packages clang clang-format clang-tidy cppcheck valgrind shellcheck libclang-rt-dev"
# the list is words on purpose
# shellcheck disable=SC2086
if ! tools/install.sh $packages; then
    echo "0 passed, 1 failed"
    exit 1
fi

configure build
run_tests build tests

if $ci; then
    configure build-gcc --werror
    record gcc-werror ninja -C build-gcc --quiet
    CC=clang configure build-clang --werror -Dcuda=disabled
    record clang-werror ninja -C build-clang --quiet
    configure build-sanitize -Db_sanitize=address,undefined -Db_lundef=false -Dcuda=disabled
    ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 run_tests build-sanitize sanitizers
    # valgrind knows no AVX-512: the BLAS library is held to what it knows
    OPENBLAS_CORETYPE=Haswell run_tests build valgrind --suite memory --timeout-multiplier 20 \
        --wrap "valgrind --quiet --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=99"
    record clang-format tools/lint.sh format
    record clang-tidy tools/lint.sh tidy
    record cppcheck tools/lint.sh cppcheck
    record shellcheck shellcheck tools/install.sh tools/demo.sh tools/test.sh tools/lint.sh .ci/run
fi

python3 tools/tally.py sum "$results"
