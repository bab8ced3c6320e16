"""What a scenario works on: a cluster, daemons, receivers, a sender, and the list of what was broken and when."""

import asyncio
import collections
import collections.abc
import contextlib
import dataclasses
import json
import pathlib
import random
import subprocess
import time

import foreign
import oracle
from daemon import Daemon, Secrets, Settings, run_command
from database import DATABASE, Server
from oracle import Fault, Findings, Ledger
from pooler import Pooler
from processes import BenchError, Scratch
from receivers import Receiver
from sender import TIME_OVER_S, Sender
from webhooks import Histories, History

DRAIN_S = 400
AUDIT_S = 300
# Retried every second, for longer than any scenario: nothing may die of a fault of a minute. Jitter keeps its default.
SCHEDULE = "[" + ", ".join(['"300ms"'] + ['"1s"'] * 60) + "]"


@dataclasses.dataclass
class Plan:
    """What a scenario needs of its bed."""

    seconds: float = 15
    daemons: int = 1
    per_second: float = 120
    keep_alive: bool = True
    may_repeat: bool = True
    timeout: str = '"5s"'
    postgres: dict[str, str] = dataclasses.field(default_factory=dict)
    integration: dict[str, str] = dataclasses.field(default_factory=dict)
    unsettled_max: int = 2_000
    # Whether the source may see nothing but 200.
    only_200: bool = False
    # From when on a refusal may be the machine's.
    time_over_s: float = TIME_OVER_S
    has_standby: bool = False
    has_pooler: bool = False
    histories: type[Histories] = Histories
    # Lines of the source beside the usual ones, and tables of the configuration.
    source: str = ""
    tables: str = ""
    data_mount_mb: int = 0
    # Something else than one PostgreSQL, or a standby beside it.
    make_server: collections.abc.Callable[[Scratch], object] | None = None


@dataclasses.dataclass(frozen=True)
class Variant:
    """What is asked for of any scenario: how the daemons reach their database."""

    # The only one that their role owns, in somebody else's database; empty: the database is theirs.
    schema: str = ""
    # By verified TLS, not by a socket.
    tls: bool = False


class Bed:
    def __init__(self, scratch: Scratch, binary: pathlib.Path, name: str, seed: int, plan: Plan,
                 postgres_environment: dict[str, str] | None = None, variant: Variant = Variant(),
                 older: pathlib.Path | None = None, stored: int = 0):
        """`older` is another version's binary, and `stored` the events that it leaves to this one (`upgrade`)."""
        self.scratch, self.binary, self.plan, self.seconds = scratch, binary, plan, plan.seconds
        self.rng = random.Random(f"{name}/{seed}/faults")
        self.tried: collections.Counter[str] = collections.Counter()
        self.findings = Findings()
        self.notes: list[str] = []
        self.faults: list[Fault] = []
        # When this process, in which the receivers are, stood still.
        self.stalls: list[Fault] = []
        self.watching: asyncio.Task[None] | None = None
        seed_text = f"{name}/{seed}"
        self.server = plan.make_server(scratch) if plan.make_server else Server(
            scratch, settings={"max_connections": "60"} | plan.postgres, environment=postgres_environment,
            data_mount_mb=plan.data_mount_mb, tls=variant.tls)
        self.standby = self.server.standby(scratch) if plan.has_standby else None
        self.server.fresh_database(DATABASE)
        self.pooler = Pooler(scratch, self.server) if plan.has_pooler else None
        self.variant = variant
        if variant.schema:
            foreign.share(self.server, variant.schema)
        secrets = Secrets(scratch, random.Random(f"{seed_text}/secret").randbytes(32))
        self.canary = Receiver("canary", secrets.integration, seed_text)
        self.receivers = [Receiver(f"receiver{number}", secrets.integration, seed_text, self.canary)
                          for number in (1, 2, 3)]
        settings = Settings(self.url(), {"schedule": SCHEDULE, "timeout": plan.timeout} | plan.integration,
                            source=plan.source, tables=plan.tables)
        if self.pooler:
            settings.database = self.pooler.database
        if variant.schema:
            settings.database["schema"] = f'"{variant.schema}"'
        self.secrets = secrets
        self.daemons = [Daemon(scratch, binary, secrets, settings, self.receivers, number + 1)
                        for number in range(plan.daemons)]
        addresses = [("127.0.0.1", daemon.port) for daemon in self.daemons]
        self.sender = Sender(plan.histories(seed_text), seed_text, addresses, secrets.source, plan.per_second,
                             keep_alive=plan.keep_alive, unsettled_max=plan.unsettled_max, time_over_s=plan.time_over_s)
        # The server that holds the truth: after a promotion the other one.
        self.current = self.server
        self.took_to_drain = 0.0
        # Writes what must come of the histories into them, where that is not known before all of them have begun.
        self.expect: collections.abc.Callable[[list[History], Ledger], None] | None = None
        self.duplicates: list[str] = []
        self.older, self.stored = older, stored
        # What is examined came later: events with a higher id, for the audit since this time.
        self.first_event, self.audited_since = 0, ""
        # File systems that end with it.
        self.mounts: list[pathlib.Path] = []

    def url(self) -> str:
        if self.pooler:
            return self.pooler.url
        if self.standby is None:
            return self.server.url(DATABASE)
        return (f"host={self.server.sockets},{self.standby.sockets} port=5432,5432 user=posthouse dbname={DATABASE} "
                "target_session_attrs=read-write")

    @property
    def daemon(self) -> Daemon:
        return self.daemons[0]

    async def open(self) -> None:
        self.watching = asyncio.create_task(oracle.watch(self.stalls))
        for receiver in [*self.receivers, self.canary]:
            await receiver.start()
        if self.standby:
            await asyncio.to_thread(self.server.wait_for, self.standby)
        for daemon in self.daemons:
            daemon.start()
        for daemon in self.daemons:
            await daemon.ready()

    async def close(self) -> None:
        if self.watching:
            self.watching.cancel()
        for receiver in [*self.receivers, self.canary]:
            await receiver.refuse()
        for daemon in self.daemons:
            if daemon.process and daemon.process.is_running():
                daemon.kill()
        for server in (self.standby, self.server):
            if server:
                await asyncio.to_thread(server.close)
        for mount in self.mounts:
            subprocess.run(["umount", str(mount)], check=False)

    @contextlib.asynccontextmanager
    async def load(self):
        """Webhooks come for as long as its `with` lasts; at its end all of them must have been acknowledged."""
        for receiver in self.receivers:
            receiver.originals = self.sender.sent
        async with self.sender.sending():
            yield

    @contextlib.contextmanager
    def breaking(self, what: str):
        """Something that may make deliveries come twice is broken inside its `with`."""
        self.tried[what] += 1
        fault = Fault(what, time.monotonic())
        self.faults.append(fault)
        try:
            yield fault
        finally:
            fault.ended = time.monotonic()

    async def note_in_flight(self, fault: Fault) -> None:
        """To be called when a daemon does nothing any more, before another takes over. Where the database cannot be
        asked, the fault goes by its time."""
        with contextlib.suppress(BenchError):
            fault.in_flight = await oracle.leased(self.current)

    async def rest(self, low: float, high: float) -> None:
        """A while drawn from the seed."""
        await asyncio.sleep(self.rng.uniform(low, high))

    def times(self, pause: float) -> range:
        """How often something that takes about so long fits into the scenario; at least once."""
        return range(max(1, round(self.seconds / pause)))

    async def drained(self, patience_s: float = DRAIN_S) -> None:
        """Waits until nothing is to be delivered any more."""
        self.took_to_drain += await oracle.drain(self.current, self.findings, patience_s, len(self.daemons))

    async def verdict(self, drain_s: float = DRAIN_S) -> None:
        await self.drained(drain_s)
        # What was answered last is settled and noted by now; a duplicate on its way would come within this.
        await asyncio.sleep(0.3)
        for daemon in self.daemons:
            if not daemon.process.is_running():
                self.findings.add("a daemon ended that nobody ended", daemon.process.last_words(3))
        ledger = await Ledger.read(self.current, self.first_event)
        if self.expect:
            self.expect(self.sender.begun, ledger)
        faults = (self.faults if self.plan.may_repeat else []) + self.stalls
        self.duplicates = oracle.examine(self.sender, self.receivers, ledger, self.findings, faults)
        if not self.plan.may_repeat:
            oracle.examine_left(self.receivers, ledger, self.findings, self.stalls)
        other = {answer: count for answer, count in self.sender.answers.items() if answer != "200"}
        if self.plan.only_200 and other:
            self.findings.add("webhooks that were not answered 200", other)
        if overdue := self.sender.overdue:
            self.notes.append(f"{overdue} webhooks had no answer in time")
        # One of each connection where the machine stood still; more where the relay does.
        if self.plan.only_200 and overdue > 2 * self.sender.connections:
            self.findings.add("webhooks that were not answered in time", overdue)
        if self.canary.behaved or self.canary.messages or self.canary.complaints:
            self.findings.add("a redirect was followed")
        if self.variant.schema:
            await foreign.examine(self.current, self.findings)
        await self.audit(ledger)

    async def audit(self, ledger: Ledger) -> None:
        """What the program itself can prove: nothing may be missing, and it must have looked at every message."""
        try:
            code, out, said = await run_command(
                [str(self.binary), "audit", "--json", "--config", str(self.daemon.file),
                 *(["--since", self.audited_since] if self.audited_since else [])], AUDIT_S)
        except TimeoutError:
            self.findings.add("the audit did not end", f"within {AUDIT_S} s")
            return
        if code not in (0, 1) or not out:
            self.findings.add("the audit failed", f"{code}: {said[-300:]}")
            return
        answer = json.loads(out)
        for finding in answer["findings"]:
            self.findings.add(f"audit: {finding['explanation']}",
                              f"{finding['event']} {finding['message']} to {finding['integration']}")
        if (code == 1) != (answer["found"] > 0):
            self.findings.add("the audit's exit code is not what it says", f"{code}: {answer['found']}")
        seen, unnoted = answer["messages"] + answer["unprovable"]["older"], answer["unprovable"]["unnoted"]
        if self.older:
            # That version notes nothing that an audit could go by.
            seen, unnoted = seen + unnoted, 0
        if seen < len(ledger.messages) or unnoted:
            self.findings.add("messages that the audit did not look at",
                              f"{len(ledger.messages) - seen}, unnoted {unnoted}")

    def warnings(self) -> collections.Counter[str]:
        return sum((daemon.warnings() for daemon in self.daemons), collections.Counter())
