#!/usr/bin/python3
"""Trainer and display together, as their user starts them: nothing is told to the display, keys are pressed in a terminal
(tmux), processes are killed and stopped. Waits for conditions, never for a duration."""
import json, os, re, shutil, signal, sqlite3, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
SCRATCH = tempfile.mkdtemp(prefix="nantop-e2e.")
RUNTIME = os.path.join(SCRATCH, "live")
os.mkdir(RUNTIME, 0o700)
ENV = dict(os.environ, NANTOP_RUNTIME_DIR=RUNTIME, LC_ALL="C.UTF-8", HOME=SCRATCH, XDG_CONFIG_HOME=SCRATCH)
ENV.pop("NO_COLOR", None)
DATA = os.path.join(ROOT, "tests/data/mnist320")
PATIENCE = 30
children = []
terminals = []


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"never happened: {what}")


def trainer(*options):
    small = ["--threads", "1", "--limit-images", "40", "--batch-size", "8", "--lr", "0.001"]
    process = subprocess.Popen([os.path.join(BUILD, "nantrain"), "--data", DATA, *small, *options], env=ENV, cwd=SCRATCH,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    children.append(process)
    return process


def endless(name, *options):
    return trainer("--history", "shuffled", "--epochs", "100000", "--name", name, "--pace", "40", *options)


def nantop(*arguments, **options):
    return subprocess.run([os.path.join(BUILD, "nantop"), *arguments], env=ENV, cwd=SCRATCH, capture_output=True, text=True,
                          timeout=PATIENCE, stdin=subprocess.DEVNULL, **options)


def rows(name, sql):
    try:
        table = sqlite3.connect(f"file:{SCRATCH}/runs/{name}/run.db?mode=ro", uri=True)
        return table.execute(sql).fetchall()
    except sqlite3.Error:
        return []


def steps_of(name):
    found = rows(name, "select max(step) from steps")
    return found[0][0] or 0 if found else 0


class Terminal:
    """A shell in tmux, so that what the display leaves behind can be seen too."""

    def __init__(self, columns=100, lines=30):
        self.name = f"nantop-{os.getpid()}-{time.monotonic_ns()}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "env PS1='$ ' sh")
        self.tmux("set-option", "-g", "status", "off")
        terminals.append(self)

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-L", self.name, *arguments], env=ENV, cwd=SCRATCH, capture_output=True, text=True).stdout

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def key(self, *names):
        self.tmux("send-keys", *names)

    def run(self, *arguments):
        self.type(" ".join([os.path.join(BUILD, "nantop"), *arguments]))
        self.key("Enter")

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def shows(self, pattern):
        try:
            return wait_for(f"screen shows {pattern}", lambda: re.search(pattern, self.screen()))
        except AssertionError:
            print(self.screen())
            raise

    def pid(self):
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        found = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True).stdout.split()
        return int(found[0]) if found else None

    def at_prompt(self, running=False):
        """The display has gone (or is stopped), and the terminal is as it was."""
        wait_for("the display goes", lambda: running or not self.pid())
        self.type("echo back-$((20+22)); stty -a | tr ';' '\\n' | grep -E 'icanon|isig'")
        self.key("Enter")
        self.shows(r"back-42")
        screen = self.shows(r" echo |icanon")
        assert "-icanon" not in self.screen() and "-isig" not in self.screen(), self.screen()
        return screen

    def close(self):
        self.tmux("kill-server")


def stop(process, how=signal.SIGTERM):
    process.send_signal(how)
    process.wait(PATIENCE)


def test_they_find_each_other_and_a_late_viewer_sees_step_0():
    run = endless("alpha")
    wait_for("some steps", lambda: steps_of("alpha") > 60)
    terminal = Terminal()
    terminal.run()
    terminal.shows(r"alpha")
    terminal.shows(r"(?s)loss.*grad_norm")
    terminal.shows(r"\bfinite\b|FINITE")
    once = nantop("--once", "alpha")
    assert once.returncode == 0 and "alpha" in once.stdout, once
    terminal.key("q")
    terminal.at_prompt()
    terminal.close()
    stop(run)
    assert run.returncode == 0, run.stderr.read()


def test_json_of_a_live_run_has_every_step_once():
    run = endless("beta")
    wait_for("some steps", lambda: steps_of("beta") > 50)
    follower = subprocess.Popen([os.path.join(BUILD, "nantop"), "--json", "--follow", "beta"], env=ENV, cwd=SCRATCH,
                                stdout=subprocess.PIPE, text=True)
    children.append(follower)
    wait_for("more steps", lambda: steps_of("beta") > 120)
    stop(run)
    lines = [json.loads(line) for line in follower.communicate(timeout=PATIENCE)[0].splitlines()]
    steps = [line["step"] for line in lines if "loss" in line or line.get("step") == 0]
    assert steps == list(range(len(steps))) and len(steps) > 120, steps
    assert follower.returncode == 0, follower.returncode


def test_a_stopped_display_changes_nothing():
    run = endless("gamma")
    terminal = Terminal()
    terminal.run("gamma")
    terminal.shows(r"grad_norm")
    os.kill(terminal.pid(), signal.SIGSTOP)
    before = steps_of("gamma")
    wait_for("it trains on", lambda: steps_of("gamma") > before + 100)
    os.kill(terminal.pid(), signal.SIGCONT)
    terminal.key("q")
    stop(run)
    assert not rows("gamma", "select * from events where kind = 'gap'")
    numbers = [step for (step,) in rows("gamma", "select step from steps order by step")]
    assert numbers == list(range(len(numbers)))
    terminal.close()


def test_kill_9_is_called_dead_and_a_new_run_is_found():
    run = endless("delta")
    terminal = Terminal()
    terminal.run()
    terminal.shows(r"grad_norm")
    stop(run, signal.SIGKILL)
    terminal.shows(r"(?i)died")
    again = endless("epsilon")
    terminal.shows(r"epsilon")
    terminal.key("q")
    terminal.at_prompt()
    terminal.close()
    stop(again)
    whole = nantop("--json", f"{SCRATCH}/runs/delta")  # what was published before the kill is there
    assert len(whole.stdout.splitlines()) > 1, whole
    assert whole.returncode == 3, whole
    once = nantop("--once", f"{SCRATCH}/runs/delta")
    assert once.returncode == 3 and " died" in once.stdout, once
    for mode in "--once", "--json":
        plain = nantop(mode, "--theme", "nope", f"{SCRATCH}/runs/delta")
        assert plain.returncode == 2 and not plain.stdout and "theme nope" in plain.stderr, plain


def test_two_runs_are_two_rows():
    first, second = endless("zeta"), endless("eta")
    terminal = Terminal()
    terminal.run()
    terminal.shows(r"(?s)(zeta.*\beta\b|\beta\b.*zeta)")
    terminal.key("Enter")
    terminal.shows(r"grad_norm")
    terminal.key("Escape")
    terminal.shows(r"(?s)(zeta.*\beta\b|\beta\b.*zeta)")
    terminal.key("q")
    terminal.close()
    stop(first)
    stop(second)


def test_the_alarm_freezes_the_picture_and_is_saved():
    run = endless("theta", "--inject", "120:fc1.weight:1e8", "--stop-on", "never")
    terminal = Terminal(120, 40)
    terminal.run("theta")
    terminal.shows(r"FROZEN")
    terminal.shows(r"120")
    terminal.key("Left")
    terminal.shows(r"\b119\b")
    terminal.key("s")
    terminal.shows(r"nantop-theta")
    saved = wait_for("the files", lambda: [name for name in os.listdir(SCRATCH) if re.match(r"nantop-theta.*\.(txt|csv)$", name)])
    assert len(saved) == 2, saved
    terminal.key("?")
    terminal.shows(r"(?i)keys|help")
    terminal.key("?")

    def live_again():  # until the next severity rings, which freezes it again
        terminal.key("f")
        return "FROZEN" not in terminal.screen()

    wait_for("live again", live_again)
    terminal.key("q")
    terminal.at_prompt()
    terminal.close()
    stop(run)
    assert run.returncode == 1, run.returncode
    assert nantop("--once", f"{SCRATCH}/runs/theta").returncode == 1


def test_stop_and_go_on_with_a_resize_between():
    run = endless("iota")
    terminal = Terminal()
    terminal.run("iota")
    terminal.shows(r"grad_norm")
    terminal.key("C-z")
    terminal.shows(r"(?i)stopped")
    terminal.at_prompt(running=True)
    terminal.tmux("resize-window", "-x", "80", "-y", "24")
    terminal.type("fg")
    terminal.key("Enter")
    terminal.shows(r"grad_norm")
    terminal.key("C-c")
    terminal.at_prompt()
    terminal.close()
    stop(run)


def test_a_foreign_publisher_is_shown():
    for kind in ("plain", "history"):
        address = f"ipc://{SCRATCH}/foreign-{kind}"
        foreign = subprocess.Popen(["/usr/bin/python3", os.path.join(ROOT, "tests/foreign_publisher.py"), address, kind])
        children.append(foreign)
        terminal = Terminal()
        terminal.run(address)
        terminal.shows(r"foreign-run @ elsewhere")
        terminal.shows(r"FROZEN")
        terminal.shows(r"fc\.weight +grad")
        terminal.key("q")
        terminal.at_prompt()
        stop(foreign)


def main():
    failed = 0
    tests = [(name, function) for name, function in list(globals().items()) if name.startswith("test_")]
    wanted = sys.argv[1:]
    for name, function in tests:
        if wanted and name not in wanted:
            continue
        try:
            function()
            print(f"ok   {name}", flush=True)
        except Exception as reason:
            failed += 1
            print(f"FAIL {name}: {type(reason).__name__}: {reason}", flush=True)
        while terminals:
            terminals.pop().close()
        for process in children:
            if process.poll() is None:
                process.kill()
                process.wait()
    ran = len(wanted) or len(tests)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    print(f"[  PASSED  ] {ran - failed} test(s).")
    if failed:
        print(f"[  FAILED  ] {failed} test(s).")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
