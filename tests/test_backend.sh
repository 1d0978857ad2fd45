#!/bin/sh
# A backend loaded from a shared object trains the same bits as the one linked in; an object that is none is refused.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

train() {
    name=$1
    shift
    "$BUILD/nantrain" --data tests/data/mnist320 --limit-images 64 --batch-size 8 --limit-steps 6 --threads 2 --seed 7 \
        --run-dir "$scratch" --name "$name" "$@" >"$scratch/$name.log" 2>&1
}
# The header of a safetensors file is text.
state_hash() { grep -ao '"state_hash":"[0-9a-f]*"' "$1"/step-00000006.safetensors; }

train builtin
train loaded --backend "$BUILD/backend_cpu.so"
hash=$(state_hash "$scratch/builtin")
[ -n "$hash" ] && [ "$hash" = "$(state_hash "$scratch/loaded")" ]
if "$BUILD/nantrain" --data tests/data/mnist320 --device cuda 2>"$scratch/cuda.log"; then exit 1; else [ $? -eq 2 ]; fi
[ "$(wc -l <"$scratch/cuda.log")" -eq 1 ]
