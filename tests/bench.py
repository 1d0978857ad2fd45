#!/usr/bin/python3
"""Measures the budgets of the design and prints each beside its limit. usage: tests/bench.py BUILD [section ...]

Times on a shared machine are noisy: what is compared is run in turn, and medians or ratios are printed."""
import os, pty, re, select, signal, socket, sqlite3, statistics, struct, subprocess, sys, tempfile, threading, time
import fcntl, termios

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRATCH = tempfile.mkdtemp(prefix="nantop-bench.")
ENV = dict(os.environ, NANTOP_RUNTIME_DIR=os.path.join(SCRATCH, "run"), LC_ALL="C.UTF-8", TERM="xterm-256color")
os.makedirs(ENV["NANTOP_RUNTIME_DIR"], 0o700)
DATA = os.path.join(ROOT, "tests/data/mnist320")
TICKS = os.sysconf("SC_CLK_TCK")


def row(what, measured, budget):
    print(f"{what:<58} {measured:<26} {budget}", flush=True)


def program(name, *args, **options):
    return subprocess.Popen([os.path.join(BUILD, name), *map(str, args)], env=ENV, cwd=SCRATCH, **options)


def rss_kb(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Display:
    """nantop on a pseudo-terminal; counts what it writes."""

    def __init__(self, *args, rows=40, columns=120):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(SCRATCH)
            os.execve(os.path.join(BUILD, "nantop"), ["nantop", *map(str, args)], ENV)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.text, self.bytes = b"", 0

    def read(self, seconds, until=None):
        """Reads for so long, or until the pattern has been written; returns the seconds it took."""
        start = time.monotonic()
        while (left := start + seconds - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                break
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:
                break
            self.bytes += len(chunk)
            self.text = (self.text + chunk)[-200000:]
            if until and re.search(until, self.text):
                break
        return time.monotonic() - start

    def key(self, text):
        os.write(self.fd, text)

    def close(self):
        for end in (signal.SIGTERM, signal.SIGCONT):
            try:
                os.kill(self.pid, end)
            except ProcessLookupError:
                pass
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def load(runs, rate, steps, *bind):
    """bench_load, once it has bound; returns the process and its addresses."""
    process = program("bench_load", runs, rate, steps, *bind, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, [process.stdout.readline().strip() for _ in range(runs)]


def end(process):
    process.stdin.close()
    process.wait()


def train(steps, *options, seed=1):
    """Trains on the tests' 320 images; returns the median and the fastest tenth of step_ms and the peak RSS."""
    name = f"bench-{time.monotonic_ns()}"
    process = program("nantrain", "--data", DATA, "--history", "shuffled", "--epochs", 100000, "--limit-steps", steps,
                      "--name", name, "--seed", seed, *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    table = sqlite3.connect(os.path.join(SCRATCH, "runs", name, "run.db"))
    times = sorted(ms for (ms,) in table.execute("select step_ms from steps where step > 20"))
    return statistics.median(times), times[len(times) // 10], usage.ru_maxrss


def bench_training():
    for threads in (1, 2):
        ours, bare = [], []
        for _ in range(4):
            ours.append(train(150, "--threads", threads))
            bare.append(train(150, "--threads", threads, "--stats", "off"))
        rate = 64e3 / statistics.median(median for median, _, _ in ours)
        best = 64e3 / min(fast for _, fast, _ in ours)
        row(f"training, {threads} thread(s), statistics included", f"{rate:.0f} (best {best:.0f}) images/s", "PyTorch's below")
        # What else the machine does only adds: the fastest tenth of each run says most about the work itself.
        cost = statistics.median((a - b) / a for (_, a, _), (_, b, _) in zip(ours, bare))
        row(f"statistics of all tensors, {threads} thread(s)", f"{100 * cost:.1f} % of the step", "<= 5 %")
    torch = os.path.join(ROOT, "tests/bench_torch.py")
    for threads in (1, 2):
        result = subprocess.run(["/usr/bin/python3", torch, str(threads)], env=ENV, capture_output=True, text=True)
        for line in result.stdout.splitlines() or ["python3-torch is not installed"]:
            row(f"  peer: PyTorch, {threads} thread(s)", line, "")


def bench_viewer():
    """Step time (the fastest tenth of the steps) and memory of a trainer without a viewer, with one, and with a stopped one;
    in turn."""
    times = {"no viewer": [], "attached": [], "stopped": []}
    memory = {kind: [] for kind in times}
    for _ in range(3):
        for kind in times:
            display = None
            if kind != "no viewer":
                display = Display()
                display.read(1)
            if kind == "stopped":
                threading.Timer(1.5, os.kill, (display.pid, signal.SIGSTOP)).start()
            if display:
                threading.Thread(target=display.read, args=(60,), daemon=True).start()
            _, ms, peak = train(300, "--threads", 1)
            times[kind].append(ms)
            memory[kind].append(peak)
            if display:
                display.close()
    base = statistics.median(times["no viewer"])
    for kind in ("attached", "stopped"):
        ratios = [a / b for a, b in zip(times[kind], times["no viewer"])]
        row(f"step time, viewer {kind}", f"x {statistics.median(ratios):.3f} of {base:.1f} ms", "<= x 1.01")
        grown = statistics.median(memory[kind]) - statistics.median(memory["no viewer"])
        row(f"trainer memory, viewer {kind}", f"{grown / 1024:+.1f} MB", "<= +2 MB")


def bench_screen():
    print(subprocess.run([os.path.join(BUILD, "bench_screen")], env=ENV, capture_output=True, text=True).stdout, end="")


def bench_many():
    process, _ = load(16, 5000 / 16, 5000)
    display = Display(rows=50, columns=200)
    display.read(4)
    before, start = cpu_s(display.pid), time.monotonic()
    display.read(8)
    used = (cpu_s(display.pid) - before) / (time.monotonic() - start)
    row("display at 5000 steps/s from 16 runs", f"{100 * used:.1f} % of a core", "<= 10 %")
    display.close()
    end(process)


def bench_memory():
    """Lines on stdin: the longest run that can be had in seconds."""
    read, write = os.pipe()
    pid, fd = pty.fork()
    if pid == 0:
        os.dup2(read, 0)
        os.close(write)
        os.execve(os.path.join(BUILD, "nantop"), ["nantop", "--freeze-on", "never", "-"], ENV)
    os.close(read)
    threading.Thread(target=lambda: [None for _ in iter(lambda: drain(fd), b"")], daemon=True).start()
    sizes = {}
    with os.fdopen(write, "w", buffering=1 << 20) as lines:
        for step in range(10_000_001):
            lines.write(f'{{"step":{step},"loss":0.5,"grad_norm":1.5}}\n')
            if step in (1000, 100_000, 10_000_000):
                lines.flush()
                time.sleep(2)
                sizes[step] = rss_kb(pid)
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    row("memory of the display at the start", f"{sizes[1000] / 1024:.1f} MB", "<= 16 MB")
    row("  from 10^5 to 10^7 steps", f"{100 * (sizes[10_000_000] / sizes[100_000] - 1):+.1f} %", "<= +5 %")


def drain(fd):
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


class Counter(threading.Thread):
    """Forwards one TCP port to another and counts what goes to the viewer."""

    def __init__(self, port, target):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", port))
        self.target, self.bytes = target, 0

    def run(self):
        while True:
            viewer, _ = self.listener.accept()
            trainer = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=self.pump, args=(viewer, trainer, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(trainer, viewer, True), daemon=True).start()

    def pump(self, source, sink, count):
        try:
            while data := source.recv(65536):
                self.bytes += len(data) if count else 0
                sink.sendall(data)
        except OSError:
            pass
        for side in (source, sink):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def bench_attach():
    process, addresses = load(1, 20000, 100_000, "tcp://127.0.0.1:5970")
    port = int(addresses[0].rsplit(":", 1)[1])
    while "published" not in process.stdout.readline():
        pass
    ports = [Counter(5980 + i, port + i) for i in (0, 1)]
    for counter in ports:
        counter.start()
    times, sizes, picture = [], [], ""
    for _ in range(5):
        before = sum(counter.bytes for counter in ports)
        start = time.monotonic()
        done = subprocess.run([os.path.join(BUILD, "nantop"), "--once", "tcp://127.0.0.1:5980"], env=ENV, capture_output=True,
                              text=True)
        times.append(time.monotonic() - start)
        sizes.append(sum(counter.bytes for counter in ports) - before)
        picture = done.stdout
    gaps = re.search(r"gaps? (\d+)", picture)
    row("attach to a run of 100,000 steps (whole process)", f"{1000 * statistics.median(times):.0f} ms", "<= 100 ms")
    row("  bytes to the complete picture", f"{statistics.median(sizes) / 1e6:.2f} MB", "<= 1 MB")
    row("  gaps shown", gaps.group(1) if gaps else "none", "0")
    end(process)


def bench_dead():
    for how, sent in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        process, addresses = load(1, 50, 100000)
        display = Display(addresses[0])
        display.read(5, rb"live")
        display.text = b""
        process.send_signal(sent)
        took = display.read(10, rb"died|silent|SILENT")
        row(f"a {how} trainer is called dead or silent after", f"{took:.2f} s", "<= 5 s")
        display.close()
        process.kill()
        process.wait()


SECTIONS = {name[6:]: function for name, function in list(globals().items()) if name.startswith("bench_")}

if __name__ == "__main__":
    row("what", "measured", "budget")
    for section in sys.argv[2:] or SECTIONS:
        SECTIONS[section]()
