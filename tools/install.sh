#!/bin/sh
# Installs what building and testing need on Debian or Ubuntu, and nothing that is there already.
# usage: tools/install.sh [more packages]
set -eu
wanted="gcc libc6-dev meson ninja-build pkg-config python3 libjansson-dev libyaml-dev libcyaml-dev libopenblas-dev
libcurl4-openssl-dev $*"
missing=""
for package in $wanted; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "tools/install.sh: this is not Debian or Ubuntu; install by hand:$missing" >&2
    exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "tools/install.sh: neither root nor sudo; as root: apt-get install$missing" >&2
        exit 1
    fi
    sudo="sudo"
fi
echo "installing:$missing" >&2
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
# the list is words on purpose
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
