#!/usr/bin/python3
"""nantrain from outside, on the first 320 images of MNIST: what it leaves behind, what it says, how it ends."""
import json, os, pty, re, resource, shutil, signal, sqlite3, struct, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NANTRAIN = os.path.join(ROOT, os.environ.get("BUILD", "build"), "nantrain")
DATA = os.path.join(ROOT, "tests/data/mnist320")
SCRATCH = tempfile.mkdtemp(prefix="nantop-trainer.")
os.mkdir(os.path.join(SCRATCH, "live"), 0o700)
ENV = dict(os.environ, NANTOP_RUNTIME_DIR=os.path.join(SCRATCH, "live"))
PATIENCE = 120
BASE = ["--data", DATA, "--limit-images", "24", "--batch-size", "5", "--threads", "1", "--lr", "0.02"]


def train(*options, base=BASE, **more):
    return subprocess.run([NANTRAIN, *base, *options], env=ENV, cwd=SCRATCH, capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, **more)


def start(*options):
    return subprocess.Popen([NANTRAIN, *BASE, *options], env=ENV, cwd=SCRATCH, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def rows(name, sql):
    table = sqlite3.connect(f"file:{SCRATCH}/runs/{name}/run.db?mode=ro", uri=True)
    return table.execute(sql).fetchall()


def files(name, pattern="step-"):
    return sorted(file for file in os.listdir(f"{SCRATCH}/runs/{name}") if file.startswith(pattern))


def checkpoint(name, file):
    """Metadata and tensors (name: dtype, shape) of a safetensors file."""
    with open(f"{SCRATCH}/runs/{name}/{file}", "rb") as opened:
        size, = struct.unpack("<Q", opened.read(8))
        header = json.loads(opened.read(size))
    return header.pop("__metadata__"), header


def last_hash(name):
    return checkpoint(name, files(name)[-1])[0]["state_hash"]


def last_line(done):
    return done.stdout.splitlines()[-1]


def test_the_same_bits_again_with_and_without_statistics():
    hashes = {}
    for name, *options in (("a1",), ("a2",), ("a3", "--stats", "off"), ("a4", "--seed", "2")):
        done = train("--epochs", "1,1,1", "--name", name, *options)
        assert done.returncode == 0, done
        hashes[name] = last_hash(name)
    assert hashes["a1"] == hashes["a2"] == hashes["a3"] != hashes["a4"], hashes
    sql = "select step, loss, grad_norm, momentum_max, input_hash, label_hash from steps order by step"
    assert rows("a1", sql) == rows("a2", sql)
    assert rows("a3", "select grad_norm from steps where step = 3") == [(None,)]


def test_the_record_of_every_step():
    done = train("--epochs", "2,1,1", "--name", "b1", "--history", "sbac", "--batch-size", "4")
    assert done.returncode == 0 and last_line(done).startswith("b1: finite"), done
    steps = rows("b1", "select step, epoch, phase, batch, band, loss from steps order by step")
    assert [step[0] for step in steps] == list(range(len(steps)))
    assert steps[0][1:4] == (0, 0, 0) and steps[0][5] is None and steps[1][5] > 0
    assert sorted({step[1:3] for step in steps[1:]}) == [(1, 1), (2, 1), (3, 2), (4, 3)]
    seqs = rows("b1", "select seq from steps union select seq from events order by seq")
    assert [seq for seq, in seqs] == list(range(1, len(seqs) + 1)), seqs
    phases = rows("b1", "select text, step, batch from events where kind = 'phase' order by seq")
    assert [text for text, _, _ in phases] == ["5-9", "0-4", "relaxation"]
    firsts = [step[0] for before, step in zip(steps, steps[1:]) if before[2] != step[2]]
    assert [step for _, step, _ in phases] == firsts and {batch for _, _, batch in phases} == {1}
    assert rows("b1", "select kind, text from events order by seq desc limit 1") == [("end", "finished")]


def test_relaxation_is_the_same_for_both_histories():
    for name, history in (("c1", "sabc"), ("c2", "sbac"), ("c3", "shuffled")):
        done = train("--history", history, "--epochs", "1,2,2" if history != "shuffled" else "1,2", "--name", name)
        assert done.returncode == 0, done
    sql = "select input_hash, label_hash from steps where phase = %d order by step"
    assert rows("c1", sql % 3) == rows("c2", sql % 3) == rows("c3", sql % 2) != []
    assert rows("c1", sql % 1) != rows("c2", sql % 1)
    start_hash = "select value from config where key = 'initial_state'"
    assert rows("c1", start_hash) == rows("c2", start_hash) == rows("c3", start_hash)


def test_the_failing_batch_is_measured_and_not_written():
    done = train("--epochs", "3", "--inject", "7:fc1.weight:nan", "--name", "d1")
    assert done.returncode == 1, done
    assert re.match(r"d1: NON-FINITE at epoch 3 phase 1 batch 1 \(fc1\.weight, backward\), onset batch 1, lead 0; last safe checkpoint "
                    r"runs/d1/step-0000000\d\.safetensors, \d steps? before the onset; stopped on a non-finite step; runs/d1/run\.db$", last_line(done)), done
    for word in ("step 7", "fc1.weight gradient (backward)", "401408 NaN", "0 +Inf, 0 -Inf of 401408", "input ", "labels "):
        assert word in done.stderr, (word, done.stderr)
    assert rows("d1", "select band, param_norm is null from steps where step = 7") == [("non-finite", 1)]
    meta, _ = checkpoint("d1", files("d1")[-1])
    assert meta["step"] == "6", meta
    train("--epochs", "3", "--limit-steps", "6", "--name", "d2")
    assert last_hash("d2") == meta["state_hash"]
    before, after = files("d1", "onset-")[::-1]
    assert checkpoint("d1", before)[0]["state_hash"] == meta["state_hash"], before
    assert checkpoint("d1", after)[0]["step"] == "7"
    assert rows("d1", "select kind from events order by seq desc limit 1") == [("end",)]


def test_stop_on_extreme_and_never():
    done = train("--epochs", "3", "--inject", "5:fc1.weight:1e6", "--stop-on", "extreme", "--name", "e1")
    assert done.returncode == 1 and "e1: EXTREME at epoch 2 phase 1 batch 2 (runaway" in last_line(done), done
    assert checkpoint("e1", files("e1")[-1])[0]["step"] == "4"
    done = train("--epochs", "3", "--inject", "5:fc1.weight:nan", "--stop-on", "never", "--name", "e2")
    assert done.returncode == 1 and "NON-FINITE at epoch 2 phase 1 batch 2" in last_line(done) and "finished" in last_line(done), done
    assert rows("e2", "select max(step) from steps") == [(9,)]
    assert rows("e2", "select count(*) from steps where band = 'non-finite'") == [(5,)]
    assert all(int(checkpoint("e2", file)[0]["step"]) < 5 for file in files("e2"))  # no file of a non-finite state
    assert rows("e2", "select count(*) from events where kind = 'non-finite'") == [(1,)]


def test_checkpoints():
    done = train("--epochs", "2,1,1", "--name", "f1", "--keep-last", "1")
    meta = {int(checkpoint("f1", file)[0]["step"]): checkpoint("f1", file)[0] for file in files("f1")}
    marks = [meta[step]["mark"] for step in sorted(meta) if meta[step]["mark"]]
    assert marks == ["phase 1 end", "phase 2 end, relaxation start", "phase 3 end"], (marks, done)
    _, tensors = checkpoint("f1", files("f1")[-1])
    assert len(tensors) == 16 and tensors["momentum_buffer.fc1.weight"]["shape"] == [128, 3136]
    assert {entry["dtype"] for entry in tensors.values()} == {"F32"}
    last = meta[max(meta)]
    assert last["seed"] == "1" and last["epoch"] == "4" and last["phase"] == "3" and int(last["offset"]) > 0, last
    assert last["run_id"].startswith("f1-")
    events = rows("f1", "select step, band, text from events where kind = 'checkpoint' order by seq")
    assert max(events)[1:] == ("finite", f"runs/f1/{files('f1')[-1]}"), events


def test_the_protocol_is_the_default():
    losses = {}
    for name, *options in (("j1",), ("j2", "--activation", "leaky-relu", "--slope", "0.01"), ("j3", "--activation", "relu")):
        done = train("--limit-steps", "2", "--name", name, *options)
        assert done.returncode == 0, done
        losses[name] = rows(name, "select loss from steps order by step")
    assert losses["j1"] == losses["j2"] != losses["j3"], losses


def test_the_pause_of_a_paced_run_is_in_no_step():
    done = train("--limit-steps", "2", "--pace", "1", "--name", "k1")
    assert done.returncode == 0, done
    (step_ms, samples_per_s), = rows("k1", "select min(step_ms), max(samples_per_s) from steps where step > 0")
    assert step_ms < 1000 and samples_per_s > 5, (step_ms, samples_per_s)  # with the pause no step took less


def test_names():
    first, second = train("--limit-steps", "1"), train("--limit-steps", "1")
    assert last_line(first).startswith("sabc-1: ") and last_line(second).startswith("sabc-1-2: "), (first, second)
    again = train("--limit-steps", "1", "--name", "sabc-1")
    assert again.returncode == 2 and "runs/sabc-1: File exists" in again.stderr, again


def test_a_signal_ends_it_after_the_step():
    run = start("--history", "shuffled", "--epochs", "100000", "--name", "g1", "--pace", "50")
    for line in run.stdout:
        if "watch it" in line:
            break
    while not os.path.exists(f"{SCRATCH}/runs/g1/run.db") or rows("g1", "select max(step) from steps")[0][0] in (None, 0, 1, 2):
        time.sleep(0.02)
    run.send_signal(signal.SIGTERM)
    out, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, run
    assert re.search(r"g1: finite, stopped at epoch \d+ phase 1 batch \d+, step \d+; runs/g1/run.db\n$", out), out
    assert rows("g1", "select text from events where kind = 'end'") == [("stopped",)]
    assert int(checkpoint("g1", files("g1")[-1])[0]["step"]) == rows("g1", "select max(step) from steps")[0][0]


def test_a_full_disk_does_not_end_it():
    """A limit on the size of files stands for it: every write beyond fails."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))
    done = train("--history", "shuffled", "--epochs", "20", "--name", "h1", preexec_fn=limit)
    assert done.returncode == 0 and "finite, finished" in last_line(done), done
    assert "step-" in done.stderr, done  # a checkpoint that could not be written is said
    assert not files("h1")
    assert rows("h1", "select count(*) from steps")[0][0] < 101


def test_a_terminal_gets_a_line_of_progress():
    main, side = pty.openpty()
    run = subprocess.Popen([NANTRAIN, *BASE, "--history", "shuffled", "--epochs", "20", "--name", "i1"], env=ENV, cwd=SCRATCH,
                           stdout=subprocess.DEVNULL, stderr=side)
    os.close(side)
    text = b""
    while True:
        try:
            text += os.read(main, 4096)
        except OSError:
            break
    run.wait(PATIENCE)
    assert re.search(rb"\ri1: epoch \d+/20 phase 1 \(0-9\) batch \d/5, loss .*ETA \d+:\d\d", text), text
    assert b"\n" not in text, text


def test_bad_input_is_one_line():
    bad = os.path.join(SCRATCH, "bad")
    shutil.copytree(DATA, bad)
    with open(os.path.join(bad, "train-labels-idx1-ubyte"), "r+b") as file:
        file.seek(20)
        file.write(b"\x0a")
    cases = [["--batch-size", "0"], ["--batch-size", "4097"], ["--batch-size", "64x"], ["--batch-size", " 64"], ["--batch-size", "-1"],
             ["--batch-size"], ["--lr", "nan"], ["--lr", "0.1,"], ["--lr", "1,2,3,4"], ["--epochs", "1,0"], ["--epochs", ""],
             ["--epochs", "1,1,1", "--history", "shuffled"], ["--history", "SABC"], ["--momentum", "1.5"], ["--seed", "-3"],
             ["--activation", "gelu"], ["--scale", "25"], ["--inject", "3:fc9.weight:2"], ["--inject", "3:fc1.weight"],
             ["--inject", "0:fc1.weight:2"], ["--threshold", "update"], ["--threshold", "updates=1"], ["--threshold", "update=inf"],
             ["--run-file-max", "12"], ["--run-file-max", "12Q"], ["--name", "../x"], ["--name", ""], ["--frobnicate"], ["extra"],
             ["--limit-images", "321"], ["--limit-images", "2"], ["--device", "cuda"], ["--device", "tpu"],
             ["--backend", "/nonexistent.so"], ["--backend", "/etc/passwd"], ["--run-dir", "/proc/nowhere"],
             ["--data", "/nonexistent"], ["--data", bad], ["--bind", "tcp://nowhere"], ["--bind", "tcp://0.0.0.0:5570"]]
    for case in cases:
        done = train(*case)
        assert done.returncode == 2, (case, done)
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("nantrain: "), (case, done.stderr)
    unknown = train("sweep", base=[])
    assert unknown.returncode == 2 and "unknown command sweep" in unknown.stderr, unknown
    before = sorted(os.listdir(SCRATCH))
    assert train("--run-dir", "/".join(["x" * 90] * 4)).returncode == 2 and sorted(os.listdir(SCRATCH)) == before
    for option in ("--help", "--version"):
        done = train(option)
        assert done.returncode == 0 and done.stdout and not done.stderr, done


def main():
    failed = 0
    wanted = sys.argv[1:]
    tests = [(name, function) for name, function in list(globals().items())
             if name.startswith("test_") and (not wanted or name in wanted)]
    for name, function in tests:
        try:
            function()
            print(f"ok   {name}", flush=True)
        except Exception as reason:
            failed += 1
            print(f"FAIL {name}: {type(reason).__name__}: {reason}", flush=True)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    print(f"[  PASSED  ] {len(tests) - failed} test(s).")
    if failed:
        print(f"[  FAILED  ] {failed} test(s).")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
