"""The processes that a program of the tests starts, and its scratch directory. However that program ends, they end: by
itself it stops them in turn, and if it is killed the kernel signals each of them (PR_SET_PDEATHSIG)."""

import collections.abc
import contextlib
import ctypes
import fcntl
import os
import pathlib
import pwd
import resource
import shutil
import signal
import subprocess
import tempfile
import time

PR_SET_PDEATHSIG = 1
# How often a command of posthouse is run that `did_nothing`.
RUNS = 4
_libc = ctypes.CDLL(None, use_errno=True)


class BenchError(Exception):
    """What keeps the program from doing what it is for, said for whoever runs it."""


def raise_file_limit() -> int:
    """To what this user may have; what is started later inherits it. Returns the limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def server_user() -> str | None:
    """PostgreSQL does not run as root; for root the servers run as the user that its package made."""
    return "postgres" if os.getuid() == 0 else None


class Process:
    """A helper process, its output in a log of its own. `end` is the signal that ends it in order."""

    def __init__(self, scratch: "Scratch", name: str, arguments: list[str], end: int = signal.SIGTERM,
                 user: str | None = None, environment: dict[str, str] | None = None,
                 keep_open: collections.abc.Sequence[int] = ()):
        self.scratch, self.name, self.end = scratch, name, end
        self.log = scratch.path / f"{name}.log"
        account = pwd.getpwnam(user) if user else None
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
                env=os.environ | (environment or {}), preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, end),
                pass_fds=keep_open,
                **({"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}))
        scratch.processes.append(self)

    def is_running(self) -> bool:
        return self.child.poll() is None

    def stop(self, patience_s: float = 60) -> None:
        if self.is_running():
            self.child.send_signal(self.end)
            try:
                self.child.wait(patience_s)
            except subprocess.TimeoutExpired:
                pass
        # Children that it left behind are in its session, and have its group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        if self in self.scratch.processes:
            self.scratch.processes.remove(self)

    def kill(self) -> None:
        """At once: for a process whose orderly end would take long and shows nothing."""
        self.child.kill()
        self.stop()

    def peak_memory_mb(self) -> float:
        """Peak of the resident memory (VmHWM), in MB of 10^6 bytes."""
        for line in pathlib.Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise BenchError(f"{self.name} has ended: {self.last_words()}")

    def last_words(self, lines: int = 5) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Scratch:
    """A directory on a real disk (not /tmp, which may be memory), removed at the end with all that runs in it."""

    PARENT = "/var/tmp"

    def __init__(self, program: str = "bench"):
        self.prefix = f"posthouse-{program}."
        self.remove_left_behind()
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=self.prefix, dir=self.PARENT))
        # The servers run as another user.
        self.path.chmod(0o711)
        # Held as long as this process lives.
        self.lock = open(self.path / "lock", "w", encoding="ascii")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.processes: list[Process] = []

    def remove_left_behind(self) -> None:
        """Directories of programs that were killed: gigabytes, in the end."""
        for path in pathlib.Path(self.PARENT).glob(f"{self.prefix}*"):
            with contextlib.suppress(OSError):
                with open(path / "lock", encoding="ascii") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(self, *_: object) -> None:
        # The last one started may need those before it to end in order.
        for process in reversed(self.processes.copy()):
            process.stop()
        shutil.rmtree(self.path, ignore_errors=True)


def did_nothing(code: int, errors: str) -> bool:
    """Whether a command of posthouse ended so: the database gave it no connection in its five seconds. The machine may
    be busy, and it is run again."""
    return code == 69 and "did not answer within 5.0 seconds" in errors


def run(arguments: list[str], patience_s: float, environment: dict[str, str] | None = None) -> str:
    """Runs a tool to its end and returns what it printed."""
    for _ in range(RUNS):
        try:
            done = subprocess.run(
                arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience_s,
                env=os.environ | (environment or {}),
                preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        except subprocess.TimeoutExpired:
            raise BenchError(f"{arguments[0]} did not end within {patience_s} s") from None
        if not did_nothing(done.returncode, done.stderr):
            break
    if done.returncode != 0:
        raise BenchError(f"{arguments[0]} failed ({done.returncode}): {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


def wait_until(what: str, is_so, patience_s: float, pause_s: float = 0.05) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > deadline:
            raise BenchError(f"{what}: not within {patience_s:g} s")
        time.sleep(pause_s)
