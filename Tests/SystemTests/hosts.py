"""Two hosts that boot their own systemd, one database: what they do while both live, while one is cut off, and when one
loses its power. Started by Tests/SystemTests/hosts, which boots them and installs the package."""

import argparse
import asyncio
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import time

import oracle
from database import DATABASE, Server
from oracle import Fault, Findings, Ledger
from processes import BenchError, Scratch
from program import run_as_program
from receivers import Receiver
from sender import Sender
from webhooks import Histories

# Limits.leaseDuration.
LEASE_S = 15
CUT_S = LEASE_S + 5
START_S, DRAIN_S = 300, 300
# Until a connection that is being made has what it is asked for.
SETTLE_S = 30
# While fewer and fewer are left, one waits on.
TAKEN_OVER_S = 180
PER_SECOND, ANSWER_AFTER_S = 20, 1.5


@dataclasses.dataclass
class Host:
    name: str
    # Its process 1 and its systemd-nspawn.
    leader: int
    nspawn: int
    address: tuple[str, int]

    @staticmethod
    def parse(text: str) -> "Host":
        name, leader, nspawn, address, port = text.split(",")
        return Host(name, int(leader), int(nspawn), (address, int(port)))

    def run(self, *command: str) -> str:
        """The output of a command on the host, its errors included."""
        done = subprocess.run(
            ["nsenter", "-t", str(self.leader), "-a", "--", "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
             *command], capture_output=True, text=True, timeout=START_S, check=False)
        return done.stdout + done.stderr

    def is_active(self) -> bool:
        return self.run("systemctl", "is-active", "posthouse").strip() == "active"

    def last_words(self) -> list[str]:
        return self.run("journalctl", "-u", "posthouse", "-n", "8", "-o", "cat", "--no-pager").splitlines()

    def main_pid(self) -> str:
        return self.run("systemctl", "show", "posthouse", "-P", "MainPID").strip()

    def kill(self) -> None:
        """As when its power fails: the death of process 1 takes all of its processes along."""
        for pid in (self.leader, self.nspawn):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def plug(self, bridge: str | None) -> None:
        """Its link to the database, put on that bridge; None: pulled out of its switch, which neither side notices."""
        subprocess.run(["ip", "link", "set", f"{self.name}-db", *(["master", bridge] if bridge else ["nomaster"])],
                       check=True)


class NetworkServer(Server):
    """PostgreSQL on an address of the test's own network, where nobody else is: it trusts whoever comes from there."""

    def __init__(self, scratch: Scratch, address: str):
        self.network = f"{address}/24"
        super().__init__(scratch, settings={"listen_addresses": address})

    def make_data(self) -> None:
        super().make_data()
        with open(self.data / "pg_hba.conf", "a", encoding="ascii") as rules:
            rules.write(f"host all all {self.network} trust\n")


class Checks:
    passed = failed = 0

    def check(self, what: str, held: bool, why: list[str] | None = None) -> None:
        self.passed, self.failed = self.passed + held, self.failed + (not held)
        print(f"{'ok' if held else 'not ok'} - {what}", flush=True)
        for line in [] if held else why or []:
            print(f"    # {line}", flush=True)


class Test:
    def __init__(self, given: argparse.Namespace, scratch: Scratch):
        self.given, self.checks = given, Checks()
        self.hosts = [Host.parse(text) for text in given.hosts]
        self.server = NetworkServer(scratch, given.database)
        self.server.fresh_database(DATABASE)
        seed = str(time.time_ns() % 1_000_000)
        print(f"# seed {seed}", flush=True)
        self.receivers = []
        for number, port in enumerate(given.receiver_ports.split(","), start=1):
            receiver = Receiver(f"receiver{number}", given.integration_secret, seed, host=given.receivers)
            receiver.port, receiver.answer_after_s = int(port), ANSWER_AFTER_S
            self.receivers.append(receiver)
        self.sender = Sender(Histories(seed), seed, [host.address for host in self.hosts], given.source_secret,
                             PER_SECOND)
        self.faults: list[Fault] = []
        # When this process, in which the receivers are, stood still.
        self.stalls: list[Fault] = []
        self.watching: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        for receiver in self.receivers:
            receiver.originals = self.sender.sent
            await receiver.start()
        for host in self.hosts:
            host.run("systemctl", "start", "posthouse.socket", "posthouse")
            self.checks.check(f"systemctl start posthouse on host {host.name}", host.is_active(), host.last_words())
        # A machine that stood still for longer than a lease has one that registers anew.
        deadline = time.monotonic() + DRAIN_S
        while await self.daemons() != len(self.hosts) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        self.checks.check("the database has both daemons", await self.daemons() == len(self.hosts))

    async def daemons(self) -> int:
        return int(await self.server.ask("SELECT count(*) FROM daemons"))

    async def in_turn(self) -> None:
        self.watching = asyncio.create_task(oracle.watch(self.stalls))
        await self.begin()
        print("# both live", flush=True)
        async with self.sender.sending():
            await asyncio.sleep(self.given.seconds)
        if not await self.verdict("while both live", living=2):
            # What is delivered without end leaves nothing to be seen of the rest.
            return
        first, second = self.hosts
        print(f"# host {second.name} cannot reach the database", flush=True)
        await self.cut_off(second)
        print(f"# host {second.name} loses its power", flush=True)
        await self.lose(second, first)

    async def cut_off(self, host: Host) -> None:
        before = host.main_pid()
        async with self.sender.sending():
            await asyncio.sleep(5)
            fault = self.begin_fault("a host cut off from the database")
            host.plug(None)
            await self.note_in_flight(fault)
            await asyncio.sleep(CUT_S)
            # A machine that stood still has other things to do first.
            deadline = time.monotonic() + DRAIN_S
            while await self.daemons() != 1 and time.monotonic() < deadline:
                await asyncio.sleep(0.2)
            self.checks.check("its lease is over, and the other host knows", await self.daemons() == 1)
            host.plug("database")
            fault.ended = time.monotonic()
            await asyncio.sleep(5)
        await self.verdict("after it", living=2)
        print(f"# {len(fault.in_flight or ())} deliveries were in flight at the cut", flush=True)
        self.checks.check("the daemon that was cut off is the one that runs", host.main_pid() == before)

    async def note_in_flight(self, fault: Fault) -> None:
        """Where PostgreSQL does not answer before another host may take over, the fault goes by its time."""
        with contextlib.suppress(BenchError):
            fault.in_flight = await oracle.leased(self.server)

    async def check_keepalives(self) -> None:
        """A host that vanishes in the middle of a message holds its locks until PostgreSQL's kernel notices. A
        connection that is still being made has no keepalive yet."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            sockets = subprocess.run(
                ["ss", "-Htno", "state", "established", "sport", "=", ":5432"],
                check=True, capture_output=True, text=True).stdout.splitlines()
            late = [line for line in sockets if not re.search(r"timer:\((keepalive,([\d.]+m?s(ec)?)?|on,.*),", line)]
            if sockets and not late or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.5)
        self.checks.check("PostgreSQL looks every few seconds whether the hosts are still there",
                          bool(sockets) and not late, late)

    async def lose(self, host: Host, other: Host) -> None:
        await self.check_keepalives()
        async with self.sender.sending():
            await asyncio.sleep(5)
            fault = self.begin_fault("a host without power")
            host.kill()
            await self.note_in_flight(fault)
            # A load balancer takes it out.
            self.sender.addresses = [other.address]
            waiting = int(await self.server.ask(
                "SELECT coalesce(max(id), 0) FROM deliveries WHERE leased_by IS NOT NULL"))
            await self.taken_over(fault.began, waiting)
            fault.ended = time.monotonic()
        await self.verdict("after it", living=1)

    async def taken_over(self, began: float, waiting: int) -> None:
        """Until the other host has settled what both had in hand."""
        least, moved = None, began
        lease_over = None
        while (left := int(await self.server.ask(f"SELECT count(*) FROM deliveries WHERE id <= {waiting}"))) > 0:
            if lease_over is None and await self.daemons() == 1:
                lease_over = moved = time.monotonic()
            if least is None or left < least:
                least, moved = left, time.monotonic()
            if time.monotonic() - moved > TAKEN_OVER_S:
                break
            await asyncio.sleep(0.1)
        took = time.monotonic() - began
        self.checks.check("the other host has its deliveries", left == 0, [f"{left} are left after {took:.0f} s"])
        ended = (lease_over or float("nan")) - began
        print(f"# its lease ended {ended:.1f} s after the loss, what it had in hand was settled after {took:.1f} s",
              flush=True)

    def begin_fault(self, what: str) -> Fault:
        self.faults.append(Fault(what, time.monotonic()))
        return self.faults[-1]

    async def verdict(self, when: str, living: int) -> bool:
        findings = Findings()
        took = await oracle.drain(self.server, findings, DRAIN_S, living)
        ledger = await Ledger.read(self.server)
        oracle.examine(self.sender, self.receivers, ledger, findings, self.faults + self.stalls)
        deliveries = sum(len(receiver.messages) for receiver in self.receivers)
        twice = sum(len(message.accepted) - 1 for receiver in self.receivers
                    for message in receiver.messages.values() if message.accepted)
        print(f"# {len(self.sender.acknowledged)} webhooks acknowledged, {deliveries} deliveries, {twice} more than "
              f"once, drained after {took:.1f} s", flush=True)
        self.checks.check(f"{when}: all that was acknowledged is delivered, and nothing twice without a reason",
                          not findings, findings.lines())
        return not findings


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("source-secret", "integration-secret", "database", "receivers", "receiver-ports"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("hosts", nargs=2, metavar="NAME,LEADER,NSPAWN,ADDRESS,PORT")
    return parser.parse_args()


def main() -> int:
    with Scratch("hosts") as scratch:
        test = Test(arguments(), scratch)
        asyncio.run(test.in_turn())
        print(f"{test.checks.passed} passed, {test.checks.failed} failed")
        return 1 if test.checks.failed else 0


if __name__ == "__main__":
    run_as_program("hosts", main)
