"""Machines of their own: namespaces for processes, mounts and network, joined by a bridge. What they run can be ended
at once, frozen and cut off, as a machine loses its power, its processor or its cable."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess

from processes import BenchError, Process, Scratch, wait_until

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
BRIDGE = "posthouse"
# Nobody has this hardware address: what is sent there is lost, and the sender gets no error.
NOWHERE = "02:00:00:00:00:01"


@contextlib.contextmanager
def own_network(address: str):
    """This thread, and what it starts, in a network of its own, with a bridge that machines are plugged into; `address`
    is this side's there, if any."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    enter(None)
    try:
        ip("link", "set", "lo", "up")
        ip("link", "add", "name", BRIDGE, "type", "bridge")
        if address:
            ip("address", "add", f"{address}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        yield
    finally:
        enter(before)
        os.close(before)


def enter(network: int | None) -> None:
    """Into that network namespace, or into a new one."""
    failed = _libc.unshare(CLONE_NEWNET) if network is None else _libc.setns(network, CLONE_NEWNET)
    if failed:
        raise BenchError(f"no network of its own: {os.strerror(ctypes.get_errno())}")


def why_not() -> str | None:
    """Why no machine can be had here; None: it can."""
    if os.getuid() != 0:
        return "machines of their own need root"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
         f"ip link add name {BRIDGE} type bridge && ip link add name a type veth peer name b"],
        capture_output=True, text=True, check=False)
    return f"no machines can be had here ({tried.stderr.strip()})" if tried.returncode else None


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Machine:
    """Its name is its cable's, too. `disk` outlives a loss of power."""

    def __init__(self, scratch: Scratch, name: str, address: str, disk: pathlib.Path):
        self.scratch, self.name, self.address, self.disk = scratch, name, address, disk
        self.power: Process | None = None
        self.init = 0

    def boot(self) -> None:
        # The cable of a machine that lost its power goes some time after it.
        subprocess.run(["ip", "link", "delete", self.name], capture_output=True, check=False)
        script = pathlib.Path(__file__).with_name("machine")
        self.power = Process(
            self.scratch, self.name,
            ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", str(script),
             self.address, str(self.disk)], end=signal.SIGKILL)
        wait_until("a machine's start", self.has_begun, 20)
        ip("link", "add", "name", self.name, "type", "veth", "peer", "name", "eth0", "netns", str(self.init))
        self.plug(True)

    def has_begun(self) -> bool:
        if not self.power.is_running():
            raise BenchError(f"{self.name} ended at its start:\n{self.power.last_words()}")
        children = pathlib.Path(f"/proc/{self.power.child.pid}/task/{self.power.child.pid}/children")
        with contextlib.suppress(OSError, ValueError):
            self.init = int(children.read_text())
            return self.init > 0
        return False

    @property
    def is_on(self) -> bool:
        return self.power is not None and self.power.is_running()

    def lose_power(self) -> None:
        """All that runs on it ends at once; returns when it has."""
        init = self.init
        self.power.kill()
        wait_until("the end of a machine", lambda: not pathlib.Path(f"/proc/{init}").exists(), 20)

    def signal_all(self, name: str) -> None:
        """Signals every process but the first, in one call of the kernel's: none can be born in between."""
        self.run("--pid", "kill", f"-{name}", "--", "-1")

    def plug(self, plugged: bool) -> None:
        """Its cable into the bridge, or out of it, which neither side notices."""
        ip("link", "set", self.name, *(["master", BRIDGE, "up"] if plugged else ["nomaster"]))

    def lose_sight_of(self, other: "Machine") -> None:
        """What it sends to that machine is lost, and it hears of no error."""
        self.run("--net", "ip", "neighbour", "replace", other.address, "lladdr", NOWHERE, "dev", "eth0", "nud",
                 "permanent")

    def see_again(self, other: "Machine") -> None:
        self.run("--net", "ip", "neighbour", "delete", other.address, "dev", "eth0")

    def run(self, *arguments: str) -> None:
        """A command in those of its namespaces that come first: --net, --pid."""
        done = subprocess.run(["nsenter", "-t", str(self.init), *arguments], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise BenchError(f"{self.name}: {' '.join(arguments)}: {done.stderr.strip()}")
