#!/usr/bin/python3
"""A publisher after docs/protocol.md that shares no code with ours. usage: foreign_publisher.py ipc://X plain|history

plain: nothing but a PUB socket, no seq, no band. history: seq, band, and a ROUTER that answers every request.
Its 120th step is not finite; it then goes on saying so until it is ended."""
import math, sys, time
import msgpack, zmq

address, history = sys.argv[1], sys.argv[2] == "history"
context = zmq.Context()
pub = context.socket(zmq.PUB)
pub.bind(address + ".live")
router = None
if history:
    router = context.socket(zmq.ROUTER)
    router.bind(address + ".ctl")

RUN = b"foreign-run"
HELLO = {
    "run_id": RUN.decode(), "program": "foreign", "host": "elsewhere", "note": ["skipped", {"by": "readers"}],
    "config": {"lr": 0.1, "depth": 3, "amp": True, "seed": None},
    "schema": {
        "metrics": ["loss", "grad_norm", "my_metric"],
        "tensors": [{"name": "fc.weight", "role": "parameter", "shape": [10, 3]},
                    {"name": "fc.weight", "role": "gradient", "shape": [10, 3]}],
    },
}
messages = []  # (seq, step or None for an event, body) in order


def send(kind, body):
    pub.send_multipart([b"nantop/1/" + RUN + b"/" + kind, msgpack.packb(body)])


def record(step):
    bad = step >= 120
    body = {
        "step": step,
        "metrics": [math.nan if bad else math.exp(-step / 50), 1.5, step / 2],
        "tensors": {"sum_sq": [30.0, math.nan if bad else 2.0], "max_abs": [1.25, 0.5]},
    }
    if bad:
        body["tensors"].update(nan=[0, 4], bad_index=[None, 17])
    if history:
        body.update(band=2 if bad else 0)
        if bad:
            body.update(reason="non-finite", subject="fc.weight/gradient")
    return body


def publish(kind, body, step=None):
    if history:
        body["seq"] = len(messages) + 1
        messages.append((body["seq"], step, msgpack.packb(body)))
    send(kind, body)


def buckets(level):
    width = 16 ** level
    steps = [msgpack.unpackb(body) for _, step, body in messages if step is not None]
    groups = {}
    for step in steps:
        groups.setdefault(step["step"] // width * width, []).append(step)
    body = {"level": level, "first": [], "steps": [], "band": [], "metrics": []}
    for first, group in sorted(groups.items()):
        body["first"].append(first)
        body["steps"].append(len(group))
        body["band"].append(max(step["band"] for step in group))
    for m in range(3):
        columns = [[step["metrics"][m] for step in group] for _, group in sorted(groups.items())]
        finite = [[v for v in column if math.isfinite(v)] for column in columns]
        body["metrics"].append({
            "last": [column[-1] for column in columns],
            "min": [min(column, default=None) for column in finite],
            "max": [max(column, default=None) for column in finite],
            "marks": [int(any(map(math.isnan, column))) for column in columns],
        })
    return msgpack.packb(body)


def answer():
    while router and router.poll(0):
        peer, request, run, arguments = router.recv_multipart()
        arguments = msgpack.unpackb(arguments)
        first, last = arguments.get("first", 0), arguments.get("last", 1 << 60)
        kind = request.rstrip(b"?")
        bodies = {
            b"hello": lambda: [msgpack.packb(HELLO)],
            b"status": lambda: [],
            b"pyramid": lambda: [buckets(level) for level in range(3)] if messages else [],
            b"steps": lambda: [body for _, step, body in messages if step is not None and first <= step <= last],
            b"events": lambda: [body for seq, step, body in messages if step is None and first <= seq <= last],
        }[kind]()
        status = msgpack.packb({"seq": len(messages), "id": arguments.get("id", 0)})
        router.send_multipart([peer, kind, RUN, status, *bodies])


step, said = 0, 0
while True:
    if time.monotonic() - said > 0.1:
        said = time.monotonic()
        send(b"hello", HELLO)
    if step <= 120:
        publish(b"step", record(step), step)
        if step == 120 and history:
            publish(b"event", {"kind": "non-finite", "step": 120, "band": 2, "reason": "non-finite", "onset": 120,
                               "lead": 0, "tensor": 1, "stage": "backward", "nan": 4, "bad_index": 17, "count": 30})
        step += 1
    else:
        if not history:
            publish(b"step", record(step), step)
            step += 1
        send(b"event", {"kind": "end", "step": step - 1, "text": "done"})
    answer()
    time.sleep(0.01)
