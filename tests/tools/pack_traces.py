#!/usr/bin/env python3
"""Packs recorded runs (one gzipped TSV each, a column per norm) into tests/data/traces.tsv.gz: only what the
detector's rules read, in few digits.

    pack_traces.py FOLDER OUT

Per run a line `# NAME MOMENTUM FIRST_NONFINITE_ROW` (rows from 0; -1: never), then a line a step: loss, gradient
norm, update ratio, largest update ratio of a weight tensor, largest |activation| or |logit|; `-`: not recorded.
"""
import gzip
import os
import sys

WEIGHTS = ["conv1.weight", "conv2.weight", "fc1.weight", "fc2.weight"]
ACTIVATIONS = ["act_conv1_max", "act_conv2_max", "act_fc1_max", "logits_max"]
DIGITS = 3


def worst(values):
    """The largest; NaN when there is one, which Python's max may lose."""
    values = list(values)
    return next((v for v in values if v != v), max(values))


def pack(path):
    head, rows, previous = {}, [], None
    with gzip.open(path, "rt") as lines:
        for line in lines:
            field = line.rstrip("\n").split("\t")
            if line.startswith("# "):
                head[field[0][2:]] = field[1]
            elif line.startswith("phase\t"):
                names = field
            else:
                row = dict(zip(names, map(float, field)))
                rate = float(head["learning_rate"])
                update = largest = None
                if float(head["momentum"]) > 0:
                    update = rate * row["momentum_norm"] / row["param_norm_before"]
                    if previous:  # the norm before a step is the one after the step before
                        largest = worst(
                            rate * row["momentum_norm:" + w] / previous["param_norm_after:" + w] for w in WEIGHTS
                        )
                activation = worst(row[a] for a in ACTIVATIONS)
                rows.append((row["loss"], row["grad_norm"], update, largest, activation))
                previous = row
    first = head["first_non_finite"]
    first = -1 if first == "never" else int(first.split()[1])
    name = os.path.basename(path).removesuffix(".tsv.gz")
    yield f"# {name} {head['momentum']} {first}\n"
    for row in rows:
        yield "\t".join("-" if v is None else f"{v:.{DIGITS}g}" for v in row) + "\n"


def main():
    folder, out = sys.argv[1:]
    text = "".join(
        line for name in sorted(os.listdir(folder)) if name.endswith(".gz") for line in pack(os.path.join(folder, name))
    )
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(text.encode())


main()
