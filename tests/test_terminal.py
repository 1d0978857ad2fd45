#!/usr/bin/python3
"""nantop as a process on a terminal that is not as it ought to be: unknown, dumb, without colour, without UTF-8, gone. What it
shows comes as JSON lines on stdin, keys from the terminal. Waits for conditions, never for a duration."""
import fcntl, os, pty, re, select, shutil, signal, struct, subprocess, sys, tempfile, termios, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NANTOP = os.path.join(ROOT, os.environ.get("BUILD", "build"), "nantop")
SCRATCH = tempfile.mkdtemp(prefix="nantop-terminal.")
ENV = {"PATH": os.environ["PATH"], "HOME": SCRATCH, "NANTOP_RUNTIME_DIR": SCRATCH, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
       "TZ": "UTC"}
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        ENV[name] = os.environ[name]
PATIENCE = 60
STEPS = "".join(f'{{"step":{step},"loss":{2.5 - step / 100},"grad_norm":1.5}}\n' for step in range(40))


class Terminal:
    """nantop with lines on stdin and a pseudo-terminal around it."""

    def __init__(self, *arguments, rows=24, columns=80, **environment):
        read, self.lines = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.dup2(read, 0)
            os.closerange(3, 64)
            os.chdir(SCRATCH)
            os.execve(NANTOP, ["nantop", *arguments, "-"], dict(ENV, **environment))
        os.close(read)
        self.text = b""

    def feed(self, text):
        os.write(self.lines, text.encode())

    def read(self):
        """More of what was written; False at the end. When nothing comes a new picture is asked for: a frame only holds what
        changed, and words may be spread over several."""
        for _ in range(PATIENCE):
            if select.select([self.fd], [], [], 1)[0]:
                break
            os.kill(self.pid, signal.SIGWINCH)
        else:
            raise AssertionError(f"nothing came after {self.text[-2000:]!r}")
        try:
            chunk = os.read(self.fd, 65536)
        except OSError:
            return False
        self.text += chunk
        return bool(chunk)

    def shows(self, pattern):
        while not re.search(pattern.encode(), self.text):
            if not self.read():
                raise AssertionError(f"{pattern} was not in {self.text!r}")

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        while self.read():
            pass
        _, status = os.waitpid(self.pid, 0)
        self.modes = termios.tcgetattr(self.fd)
        os.close(self.fd)
        os.close(self.lines)
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def nantop(*arguments, lines="", **environment):
    return subprocess.run([NANTOP, *arguments], env=dict(ENV, **environment), cwd=SCRATCH, input=lines, capture_output=True,
                          text=True, timeout=PATIENCE)


def test_lines_on_stdin_keys_from_the_terminal():
    terminal = Terminal()
    terminal.feed(STEPS)
    terminal.shows(r"grad_norm")
    terminal.shows(r"step 39")
    terminal.type(" ")
    terminal.shows(r"FROZEN")
    terminal.type("\x1b[D")
    terminal.shows(r"38")
    terminal.type("q")
    assert terminal.end() == 0
    assert terminal.text.rstrip().endswith(b"\x1b[?1049l") or b"\x1b[?1049l" in terminal.text[-200:], terminal.text[-200:]


def test_nan_is_an_alarm():
    terminal = Terminal()
    terminal.feed(STEPS + '{"step":40,"loss":NaN,"grad_norm":2}\n')
    terminal.shows(r"NON-FINITE")
    terminal.shows(r"FROZEN")
    terminal.type("q")
    assert terminal.end() == 1


def test_unknown_terminal():
    terminal = Terminal(TERM="no-such-terminal", columns=100)
    terminal.shows(r"no-such-terminal is not known here: drawing as xterm-256color")
    terminal.type("q")
    terminal.end()


def test_dumb_terminal():
    terminal = Terminal(TERM="dumb")
    assert terminal.end() == 2
    assert terminal.text.count(b"\n") == 1 and b"'dumb' cannot move its cursor" in terminal.text, terminal.text


def test_stdout_is_no_terminal():
    done = nantop("-", lines=STEPS)
    assert done.returncode == 2 and done.stderr == "nantop: stdout is not a terminal: use --once or --json\n", done


def test_no_color():
    for environment, expected in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "vt100"}, False)):
        terminal = Terminal(**environment)
        terminal.feed(STEPS + '{"step":40,"loss":NaN,"grad_norm":2}\n')
        terminal.shows(r"NON-FINITE")
        terminal.type("q")
        terminal.end()
        styles = b";".join(re.findall(rb"\x1b\[([0-9;]*)m", terminal.text)).split(b";")
        assert any(re.fullmatch(rb"[34][0-8]", style) for style in styles) == expected, (environment, styles)


def test_no_utf8():
    terminal = Terminal(LC_ALL="C")
    terminal.feed(STEPS + '{"step":40,"loss":NaN,"grad_norm":2}\n')
    terminal.shows(r"NON-FINITE")
    terminal.type("?")
    terminal.shows(r"Marks")
    terminal.type("q")
    terminal.end()
    assert all(byte < 128 for byte in terminal.text), terminal.text
    assert all(ord(c) < 128 for c in nantop("--once", "-", lines=STEPS, LC_ALL="C").stdout)


def test_broken_theme():
    with open(os.path.join(SCRATCH, "broken.ini"), "w") as theme:
        theme.write("[roles]\ntext = default\nextreme = purple-ish\n")
    terminal = Terminal("--theme", "./broken.ini", columns=120)
    terminal.shows(r"broken.ini: line 3: 'purple-ish' is no colour or attribute")
    terminal.type("q")
    assert terminal.end() in (0, 3)


def test_resize():
    terminal = Terminal(rows=24, columns=80)
    terminal.feed(STEPS)
    terminal.shows(r"step 39")
    terminal.text = b""
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 40, 0, 0))
    terminal.shows(r"\x1b\[12;")  # its last line
    terminal.type("q")
    assert terminal.end() == 0


def test_terminal_goes_away():
    terminal = Terminal()
    terminal.feed(STEPS)
    terminal.shows(r"step 39")
    os.close(terminal.fd)
    _, status = os.waitpid(terminal.pid, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGHUP or os.WIFEXITED(status), status
    os.close(terminal.lines)


def test_signals_end_it_as_they_would():
    fresh = pty.openpty()
    modes = termios.tcgetattr(fresh[0])
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT):
        terminal = Terminal()
        terminal.feed(STEPS)
        terminal.shows(r"step 39")
        assert termios.tcgetattr(terminal.fd) != modes
        os.kill(terminal.pid, how)
        assert terminal.end() == (0 if how == signal.SIGINT else -how), how
        assert b"\x1b[?1049l" in terminal.text and terminal.modes == modes, how
    for fd in fresh:
        os.close(fd)


def test_absurd_size():
    terminal = Terminal(rows=65535, columns=65535)
    terminal.feed(STEPS)
    terminal.shows(r"step 39")
    terminal.type("q")
    assert terminal.end() == 0


def test_saved_numbers_are_those_of_the_screen():
    terminal = Terminal()
    for step in range(200):  # faster than frames are drawn
        terminal.feed(f'{{"step":{step},"loss":2}}\n')
        time.sleep(0.004)
        if step == 150:
            terminal.type("s")
    terminal.shows(r"\.txt and \.csv")
    terminal.type("q")
    assert terminal.end() == 0
    name = re.search(rb"(nantop-[\w.-]+)\.txt and", terminal.text).group(1).decode()
    with open(os.path.join(SCRATCH, name + ".txt")) as text, open(os.path.join(SCRATCH, name + ".csv")) as numbers:
        first, _, steps, *_ = numbers.read().splitlines()[-1].split(",")
        assert f" to {int(first) + int(steps) - 1}\n" in text.read(), (first, steps)


def test_output_that_fails():
    for mode in ("--once", "--json"):
        with open("/dev/full", "w") as full:
            done = subprocess.run([NANTOP, mode, "-"], env=ENV, input=STEPS, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2 and done.stderr == "nantop: writing to stdout: No space left on device\n", done


def test_bad_input_is_one_line():
    for arguments, code in ((["no-such-run"], 3), (["--once", "/etc/passwd"], 2), (["--frobnicate"], 2),
                            (["--once", "tcp://127.0.0.1:1"], 3)):
        done = nantop(*arguments)
        assert done.returncode == code and len(done.stderr.splitlines()) == 1, (arguments, done)


def test_once_and_json_of_lines():
    done = nantop("--once", "-", lines=STEPS)
    assert done.returncode == 0 and "grad_norm" in done.stdout and len(done.stdout.splitlines()) == 24, done
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert len(nantop("--once", "--rows", "12", "--columns", "40", "-", lines=STEPS).stdout.splitlines()) == 12
    done = nantop("--json", "-", lines=STEPS + '{"loss":NaN}\n')
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 41, done
    assert '"alarm": true' in done.stdout.splitlines()[-1] and "alarm" not in done.stdout.splitlines()[0], done


def test_json_answers_each_line():
    process = subprocess.Popen([NANTOP, "--json", "-"], env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    for step in range(3):
        process.stdin.write(f'{{"step":{step},"loss":1}}\n')
        assert f'"step": {step}' in process.stdout.readline()
    process.stdin.close()
    assert process.wait(PATIENCE) == 0


def test_help_and_version():
    done = nantop("--help")
    assert done.returncode == 0 and "Options:\n" in done.stdout and "Keys:\n" in done.stdout and done.stderr == ""
    assert re.match(r"nantop \S+\n$", nantop("--version").stdout)


def main():
    failed = 0
    tests = [(name, function) for name, function in list(globals().items()) if name.startswith("test_")]
    for name, function in tests:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        try:
            function()
            print(f"ok   {name}", flush=True)
        except Exception as reason:
            failed += 1
            print(f"FAIL {name}: {type(reason).__name__}: {reason}", flush=True)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    print(f"[  PASSED  ] {(len(sys.argv[1:]) or len(tests)) - failed} test(s).")
    if failed:
        print(f"[  FAILED  ] {failed} test(s).")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
