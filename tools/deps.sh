#!/bin/sh
# Installs what packages.txt lists for the given purposes and is missing: says what first; without root or sudo it only lists.
# usage: tools/deps.sh build [test] [run] [data]
set -eu
cd "$(dirname "$0")/.."

wanted=
for purpose in "$@"; do
    wanted="$wanted $(awk -v purpose="$purpose" '$1 == purpose { print $2 }' packages.txt)"
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "nantop: this is no Debian or Ubuntu; it needs what these packages hold:$wanted" | tr '\n' ' '
    echo
    exit 0
fi

missing=
for package in $wanted; do
    # A tool that is there counts, wherever it came from.
    case $package in gcc|make|npm|tmux|python3) command -v "$package" >/dev/null 2>&1 && continue ;; esac
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "nantop: missing packages:$missing"
if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo=sudo
else
    echo "nantop: neither root nor sudo here; as root: apt-get install --no-install-recommends$missing" >&2
    exit 2
fi
echo "nantop: installing them with apt-get"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# The lists may be old or absent; an update that fails for one source must not stop an install that works.
$sudo apt-get update >"$log" 2>&1 || true
# shellcheck disable=SC2086
if ! $sudo apt-get install -y --no-install-recommends $missing >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "nantop: apt-get could not install:$missing" >&2
    exit 2
fi
