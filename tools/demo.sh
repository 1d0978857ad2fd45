#!/bin/sh
# The whole story in a minute: trains the protocol in small and opens the display on it. usage: tools/demo.sh BUILD [nantrain option]...
# On a terminal it is paced for a person; otherwise it trains to the end, prints one frame and the report line.
set -eu
build=$1
shift
data=$(tools/data.sh)
name=demo
n=1
while [ -e "runs/$name" ]; do n=$((n + 1)); name=demo-$n; done
set -- "$build/nantrain" --name "$name" --data "$data" --limit-images 12000 --history sbac --epochs 2,1 \
    --lr 0.05,0.15 --activation leaky-relu --slope 0.01 --momentum 0.9 --scale normalize --seed 1 "$@"

if ! [ -t 0 ] || ! [ -t 1 ]; then
    code=0
    log=$(mktemp)
    "$@" >"$log" || code=$?
    [ "$code" -le 1 ] || { cat "$log"; rm -f "$log"; exit "$code"; }
    "$build/nantop" --once "runs/$name" || [ $? -eq 1 ]
    tail -n 1 "$log"
    rm -f "$log"
    exit 0
fi

mkdir -p runs
log=runs/$name.log
# A session of its own: Ctrl-C in the display must not reach the trainer.
setsid "$@" --pace 4 >"$log" 2>&1 </dev/null &
trainer=$!
# Whatever ends this script, the trainer it started does not stay behind.
trap 'kill -TERM "$trainer" 2>/dev/null || true; [ ! -e "$log" ] || mv "$log" "runs/$name/train.log" 2>/dev/null || rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
waited=0
while ! [ -e "runs/$name/run.db" ]; do
    if ! kill -0 "$trainer" 2>/dev/null || [ $waited -ge 100 ]; then cat "$log" >&2; exit 2; fi
    sleep 0.1
    waited=$((waited + 1))
done
code=0
"$build/nantop" "$name" || code=$?
kill -TERM "$trainer" 2>/dev/null || true
wait "$trainer" || true
tail -n 1 "$log"
mv "$log" "runs/$name/train.log"
echo "The run lies in runs/$name: $build/nantop runs/$name shows it again."
[ "$code" -le 1 ] || exit "$code"
