"""PostgreSQL under Patroni and etcd on three machines, configured as posthouse-operate(7) says, and the scenario that
breaks the primary. Nobody promotes here: that is Patroni's."""

import asyncio
import collections.abc
import contextlib
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import time
import urllib.request

import machines
from bed import Bed, Plan
from cluster import ROLE, tool
from database import DATABASE
from machines import Machine
from processes import BenchError, Scratch, wait_until

MANUAL = pathlib.Path(__file__).parents[2] / "deploy/manual/posthouse-operate.7.md"
SECTION = "More than one machine"
# The manual's, of addresses set aside for documents (RFC 5737); daemons, receivers and sender are at the last.
ADDRESSES = {"node1": "192.0.2.11", "node2": "192.0.2.12", "node3": "192.0.2.13"}
OUTSIDE = "192.0.2.1"
PACKAGES = ("patroni", "etcd")
# First start with two copies made of the first; a failover; and until all three are there again.
BEGIN_S, FAILOVER_S, WHOLE_S = 180, 120, 180


def configuration(name: str) -> tuple[str, str, str]:
    """The manual's files for etcd, Patroni and the kernel, as they are on that machine."""
    section = MANUAL.read_text().split(f"\n## {SECTION}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```\w*\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    etcd = next(block for block in blocks if block.startswith("ETCD_NAME="))
    patroni = next(block for block in blocks if block.startswith("scope:"))
    kernel = next(block for block in blocks if block.startswith("net."))
    etcd = "".join(line if line.startswith("ETCD_INITIAL_CLUSTER=") else own(line, name)
                   for line in etcd.splitlines(keepends=True))
    patroni = "".join(line if line.startswith("  hosts:") else own(line, name)
                      for line in patroni.splitlines(keepends=True))
    # The manual's is Debian's; where the tests run, there may be another version.
    return etcd, patroni.replace("/usr/lib/postgresql/15/bin", os.path.dirname(tool("postgres"))), kernel


def own(line: str, name: str) -> str:
    return line.replace(ADDRESSES["node1"], ADDRESSES[name]).replace("node1", name)


class PatroniCluster:
    def __init__(self, scratch: Scratch):
        # URL-safe as it is.
        self.password = secrets.token_hex(16)
        self.machines = [self.machine(scratch, name, address) for name, address in ADDRESSES.items()]
        for machine in self.machines:
            machine.boot()
        wait_until("three machines, a primary and its synchronous standby", self.is_whole, BEGIN_S, 0.5)

    def machine(self, scratch: Scratch, name: str, address: str) -> Machine:
        disk = scratch.path / f"{name}.disk"
        for directory, user in (("etc-patroni", "postgres"), ("etcd", "etcd"), ("postgresql", "postgres")):
            (disk / directory).mkdir(parents=True)
            shutil.chown(disk / directory, user, user)
        etcd, patroni, kernel = configuration(name)
        (disk / "etcd.default").write_text(etcd)
        (disk / "sysctl.conf").write_text(kernel)
        (disk / "etc-patroni/config.yml").write_text(patroni)
        return Machine(scratch, name, address, disk)

    def report(self, machine: Machine, page: str) -> dict:
        """What Patroni on that machine says; empty: it does not answer."""
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(f"http://{machine.address}:8008/{page}", timeout=2) as answer:
                return json.load(answer)
        return {}

    def primaries(self, asked: list[Machine]) -> list[Machine]:
        """Those that are it by their own PostgreSQL: what one knows of another may be old."""
        return [machine for machine in asked if self.report(machine, "patroni").get("role") == "master"]

    def primary(self) -> Machine:
        found = self.primaries(self.machines)
        if len(found) != 1:
            raise BenchError(f"there are {len(found)} primaries")
        return found[0]

    def has_primary_beside(self, machine: Machine) -> bool:
        return bool(self.primaries(self.others(machine)))

    def words(self) -> str:
        """What each Patroni says of the cluster."""
        return "; ".join(
            f"{machine.name} is {self.report(machine, 'patroni').get('role', 'silent')} and sees "
            + ", ".join(f"{member['name']} {member['role']} {member['state']}"
                        for member in self.report(machine, "cluster").get("members", []))
            for machine in self.machines)

    def is_whole(self) -> bool:
        """One primary that sends to both standbys, one of them synchronous; and all three know it."""
        own = {machine.name: self.report(machine, "patroni") for machine in self.machines}
        primaries = [name for name, report in own.items() if report.get("role") == "master"]
        if len(primaries) != 1:
            return False
        standbys = [standby["sync_state"] for standby in own[primaries[0]].get("replication", [])
                    if standby["state"] == "streaming"]
        return sorted(standbys) == ["async", "sync"] and all(
            self.is_whole_to(machine, primaries[0]) for machine in self.machines)

    def is_whole_to(self, machine: Machine, primary: str) -> bool:
        members = self.report(machine, "cluster").get("members", [])
        roles = {member["role"]: member["name"] for member in members if member["state"] in ("running", "streaming")}
        return roles.get("leader") == primary and len(members) == 3 and roles.keys() >= {"sync_standby", "replica"}

    def others(self, machine: Machine) -> list[Machine]:
        return [other for other in self.machines if other is not machine]

    def fresh_database(self, name: str) -> None:
        statements = [f"CREATE ROLE {ROLE} LOGIN CONNECTION LIMIT 80 PASSWORD '{self.password}'",
                      f"CREATE DATABASE {name} OWNER {ROLE}"]
        self.primary().run("--mount", "--pid", "runuser", "-u", "postgres", "--", tool("psql"), "-qX", "-v",
                           "ON_ERROR_STOP=1", "-h", "/run/postgresql", *(
                               part for statement in statements for part in ("-c", statement)))
        # psql does not go on to the next host if one knows neither role nor database yet.
        wait_until("the database on all machines", lambda: self.has(name), BEGIN_S)

    def has(self, database: str) -> bool:
        for address in ADDRESSES.values():
            try:
                self.answer("SELECT", self.url(database, [address], "any"), 10)
            except BenchError:
                return False
        return True

    def url(self, database: str, addresses: collections.abc.Iterable[str] = ADDRESSES.values(),
            which: str = "read-write") -> str:
        return (f"postgresql://{ROLE}:{self.password}@{','.join(addresses)}/{database}?target_session_attrs={which}")

    async def ask(self, sql: str, database: str = DATABASE, patience_s: float = 20) -> str:
        return await asyncio.to_thread(self.answer, sql, self.url(database), patience_s)

    def answer(self, sql: str, url: str, patience_s: float) -> str:
        try:
            done = subprocess.run(
                [tool("psql"), "-qXAt", "-v", "ON_ERROR_STOP=1", "-c", sql, url + "&connect_timeout=3"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience_s, check=False)
        except subprocess.TimeoutExpired:
            raise BenchError(f"psql did not end within {patience_s} s: {sql[:80]}") from None
        if done.returncode != 0:
            raise BenchError(f"psql: {done.stderr.strip()[:300].replace(self.password, '…')}")
        return done.stdout.rstrip("\n")

    def close(self) -> None:
        for machine in self.machines:
            if machine.is_on:
                machine.lose_power()


def why_not(_: Scratch, __: pathlib.Path) -> str | None:
    missing = [package for package in PACKAGES if shutil.which(package) is None]
    return f"needs {' and '.join(missing)}" if missing else machines.why_not()


# MARK: Faults

def crash(primary: Machine) -> None:
    """PostgreSQL alone: Patroni, which must notice, lives."""
    primary.run("--mount", "--pid", "sh", "-c", "pid=$(head -n 1 /var/lib/postgresql/15/main/postmaster.pid); "
                "kill -STOP $pid; children=$(cat /proc/$pid/task/$pid/children); kill -KILL $pid; "
                "kill -KILL $children 2>/dev/null || true")


@contextlib.contextmanager
def crashed(_: Bed, primary: Machine):
    crash(primary)
    yield


@contextlib.contextmanager
def without_power(_: Bed, primary: Machine):
    primary.lose_power()
    yield
    primary.boot()


@contextlib.contextmanager
def frozen(bed: Bed, primary: Machine):
    """And a daemon with it, as on one host: when both wake, the daemon still has its connections to a primary that does
    not know yet that it is none."""
    daemon = bed.rng.choice(bed.daemons)
    daemon.signal(signal.SIGSTOP)
    primary.signal_all("STOP")
    yield
    primary.signal_all("CONT")
    daemon.signal(signal.SIGCONT)


@contextlib.contextmanager
def cut_off_from_the_others(bed: Bed, primary: Machine):
    """From etcd and its standbys; daemons still reach it."""
    others = bed.server.others(primary)
    for other in others:
        primary.lose_sight_of(other)
        other.lose_sight_of(primary)
    yield
    for other in others:
        primary.see_again(other)
        other.see_again(primary)


@contextlib.contextmanager
def unplugged(_: Bed, primary: Machine):
    primary.plug(False)
    yield
    primary.plug(True)


FAULTS = {
    "kill -9 of PostgreSQL on the primary": crashed,
    "the primary's machine without power": without_power,
    "the primary and a daemon frozen": frozen,
    "the primary cut off from etcd and its standbys": cut_off_from_the_others,
    "the primary cut off from everybody": unplugged,
}


async def break_primary(bed: Bed, what: str) -> None:
    """Until another is the primary and webhooks are acknowledged by it, and then until all three machines are back."""
    cluster, began = bed.server, time.monotonic()
    primary = await asyncio.to_thread(cluster.primary)
    with bed.breaking(what):
        fault = FAULTS[what](bed, primary)
        await asyncio.to_thread(fault.__enter__)
        try:
            await until(cluster, "another primary", lambda: cluster.has_primary_beside(primary), FAILOVER_S)
            promoted = time.monotonic()
            await until(cluster, "an acknowledgement", lambda: bed.sender.last_acknowledged > promoted, FAILOVER_S)
        finally:
            await asyncio.to_thread(fault.__exit__, None, None, None)
        await until(cluster, "three machines", cluster.is_whole, WHOLE_S)
    gap = bed.sender.longest_pause(began)
    bed.notes.append(f"{what}: {gap:.1f} s without an acknowledgement, another primary after {promoted - began:.1f} s")


async def until(cluster: PatroniCluster, what: str, is_so: collections.abc.Callable[[], bool],
                patience_s: float) -> None:
    try:
        await asyncio.to_thread(wait_until, what, is_so, patience_s, 0.2)
    except BenchError as error:
        raise BenchError(f"{error}; Patroni: {await asyncio.to_thread(cluster.words)}") from None


async def patroni(bed: Bed) -> None:
    """three PostgreSQL under Patroni and etcd: the primary crashed, without power, frozen, cut off; nobody promotes"""
    async with bed.load():
        deadline = time.monotonic() + bed.seconds
        while True:
            kinds = list(FAULTS)
            bed.rng.shuffle(kinds)
            for what in kinds:
                await bed.rest(2, 5)
                await break_primary(bed, what)
            if time.monotonic() > deadline:
                return


PLAN = Plan(seconds=0, daemons=3, make_server=PatroniCluster)
