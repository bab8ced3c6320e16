"""The scenarios: which load, which faults, what is asked beyond the oracle. Each is bounded, and draws what it does
from its seed."""

import asyncio
import collections.abc
import contextlib
import dataclasses
import pathlib
import time

import clock
import failover
import faults
import letters
import operators
import shared_holders
import spooling
import steps
import upgrade
from bed import Bed, Plan
from database import why_no_mount
from processes import BenchError, Scratch

Run = collections.abc.Callable[[Bed], collections.abc.Awaitable[None]]


@dataclasses.dataclass
class Scenario:
    name: str
    run: Run
    plan: Plan
    # Before anything is started; and why the scenario cannot run here.
    prepare: Run | None = None
    why_not: collections.abc.Callable[[Scratch, pathlib.Path], str | None] = lambda _, __: None
    # What PostgreSQL's environment needs beside the machine's.
    postgres_environment: collections.abc.Callable[[Scratch], dict[str, str]] = lambda _: {}
    # Whether it needs an older version's binary.
    needs_older: bool = False
    # The address in a network of its own, which it has for its machines; empty: it has none.
    network: str = ""

    @property
    def what(self) -> str:
        return (self.run.__doc__ or "").strip().split("\n")[0]


async def repeatedly(bed: Bed, fault: Run, pause: tuple[float, float]) -> None:
    """The fault, and a pause after it, for as long as the scenario lasts."""
    deadline = time.monotonic() + bed.seconds
    await bed.rest(0.5, 1.5)
    while True:
        await fault(bed)
        await bed.rest(*pause)
        if time.monotonic() > deadline:
            return


async def daemon_kill(bed: Bed) -> None:
    """kill -9 of the daemon at random under load"""
    async with bed.load():
        await repeatedly(bed, faults.kill_daemon, (0.3, 3))


async def postgres_kill(bed: Bed) -> None:
    """kill -9 of all of PostgreSQL under load, and its restart"""
    async with bed.load():
        await repeatedly(bed, faults.kill_postgres, (1, 3))


async def connections_killed(bed: Bed) -> None:
    """the daemon's connections ended by pg_terminate_backend"""
    async with bed.load():
        await repeatedly(bed, faults.end_connections, (0.05, 1))


async def pool_exhausted(bed: Bed) -> None:
    """all of PostgreSQL's places taken by others"""
    async with bed.load():
        await repeatedly(bed, faults.crowd_out, (1, 3))


async def disk_full(bed: Bed) -> None:
    """no room on PostgreSQL's disk, its log included"""
    async with bed.load():
        await repeatedly(bed, faults.fill_disk, (2, 4))


async def idle_in_transaction(bed: Bed) -> None:
    """a session that holds locks the daemon needs"""
    async with bed.load():
        await repeatedly(bed, faults.hold_locks, (0.5, 2))


async def promotion(bed: Bed) -> None:
    """the primary lost under load, its synchronous standby promoted"""
    async with bed.load():
        await bed.rest(3, 6)
        with bed.breaking("kill -9 of the primary, promotion of its standby"):
            await asyncio.to_thread(bed.server.kill)
            await bed.rest(0, 2)
            await asyncio.to_thread(bed.standby.promote)
            bed.current = bed.standby
        await asyncio.sleep(max(3, bed.seconds - 6))


async def pooler(bed: Bed) -> None:
    """PgBouncer in transaction mode with four server connections; PostgreSQL, its sessions and daemons killed"""
    async with bed.load():
        deadline = time.monotonic() + bed.seconds
        kinds = [faults.end_connections, faults.kill_daemon, faults.kill_postgres]
        while time.monotonic() < deadline:
            await bed.rest(0.5, 2)
            await bed.rng.choice(kinds)(bed)


async def daemons(bed: Bed) -> None:
    """several daemons on one database, one frozen past its lease and woken, others killed"""
    async with bed.load():
        deadline = time.monotonic() + bed.seconds
        await bed.rest(0.5, 1.5)
        while time.monotonic() < deadline:
            await faults.freeze_daemon(bed)
            await bed.rest(0.5, 2)
            await faults.kill_daemon(bed)
            await bed.rest(0.5, 2)
            await faults.terminate_daemon(bed)


async def receivers(bed: Bed) -> None:
    """receivers that refuse, reset, hang, drip, answer garbage, redirect inside, never end"""
    async with bed.load():
        moods = ["refuse", *faults.MOODS]
        bed.rng.shuffle(moods)
        for mood in moods:
            await faults.misbehave(bed, [mood], bed.seconds / len(moods) * 0.8, bed.seconds / len(moods) * 1.2)


async def clients(bed: Bed) -> None:
    """slow clients, half-sent bodies, ten thousand idle connections"""
    async with faults.idle_connections(bed, 10_000) as idle:
        async with bed.load():
            slow = [asyncio.create_task(faults.slow_client(bed)) for _ in range(200)]
            try:
                began, is_seen = time.monotonic(), False
                while (elapsed := time.monotonic() - began) < bed.seconds:
                    await asyncio.gather(*(faults.half_body(bed) for _ in range(20)))
                    # While they are young enough.
                    if elapsed > faults.IDLE_S / 2 and not is_seen:
                        is_seen = True
                        faults.examine_idle(bed, idle)
                if not is_seen:
                    faults.examine_idle(bed, idle)
            finally:
                for task in slow:
                    task.cancel()
                await asyncio.gather(*slow, return_exceptions=True)
        # On a busy machine it takes both sides seconds to close ten thousand connections at once: longer than a
        # delivery that is under way has.
        await bed.drained()
    memory = bed.daemon.peak_memory_mb()
    bed.notes.append(f"the daemon's memory at its peak: {memory:.0f} MB")


async def sigterm(bed: Bed) -> None:
    """SIGTERM under load: an end in order, and nothing comes twice"""
    async with bed.load():
        await repeatedly(bed, faults.terminate_daemon, (0.3, 2))


async def socket_restart(bed: Bed) -> None:
    """restarts behind an inherited socket: no webhook is refused"""
    async with bed.load():
        await repeatedly(bed, faults.terminate_daemon, (0.3, 2))


async def keep_socket(bed: Bed) -> None:
    bed.daemon.keep_socket()


async def reload(bed: Bed) -> None:
    """good and broken configuration files under load"""
    async with bed.load():
        await repeatedly(bed, faults.reload_daemon, (0, 0.3))
    bed.daemon.write()


async def burst(bed: Bed) -> None:
    """an outage of all receivers, and a daemon killed in it: everything is due at once"""
    async with bed.load():
        await faults.outage(bed, bed.seconds * 0.8, bed.seconds * 1.2)
        waiting = int(await bed.current.ask("SELECT count(*) FROM deliveries"))
        bed.tried["deliveries waiting at the end of the outage"] += waiting
        await faults.kill_daemon(bed)


async def mixed(bed: Bed) -> None:
    """faults of all kinds, several at a time, drawn at random"""
    databases = [faults.kill_postgres, faults.end_connections, faults.crowd_out, faults.hold_locks]
    ours = [faults.kill_daemon, faults.terminate_daemon, faults.reload_daemon, faults.freeze_briefly]
    others = [faults.misbehave, faults.half_body, faults.brief_outage]

    async def draw(kinds: list[Run], deadline: float) -> None:
        while time.monotonic() < deadline:
            await bed.rest(0.5, 5)
            await bed.rng.choice(kinds)(bed)

    async with bed.load():
        deadline = time.monotonic() + bed.seconds
        # A kind at a time: two of one kind would be about one thing.
        await asyncio.gather(*(draw(kinds, deadline) for kinds in (databases, ours, others)))
        for receiver in bed.receivers:
            await receiver.behave()
        for daemon in bed.daemons:
            daemon.write()


def why_no_small_disk(scratch: Scratch, _: pathlib.Path) -> str | None:
    return why_no_mount(scratch)


SMALL_DISK = Plan(data_mount_mb=260, seconds=20,
                  postgres={"max_wal_size": "64MB", "min_wal_size": "32MB", "max_connections": "60"})
SCENARIOS = [
    Scenario("daemon-kill", daemon_kill, Plan()),
    Scenario("failpoints", steps.failpoints, Plan(per_second=100), why_not=steps.why_no_failpoints),
    Scenario("migrate", steps.migrate, Plan(seconds=4, per_second=100), prepare=steps.use_private_cluster,
             why_not=steps.why_no_failpoints),
    Scenario("postgres-kill", postgres_kill, Plan()),
    Scenario("connections-killed", connections_killed, Plan()),
    Scenario("pool-exhausted", pool_exhausted, Plan(postgres={"max_connections": "25"})),
    Scenario("disk-full", disk_full, SMALL_DISK, why_not=why_no_small_disk),
    Scenario("idle-in-transaction", idle_in_transaction, Plan(seconds=20)),
    Scenario("promotion", promotion, Plan(has_standby=True)),
    Scenario("pooler", pooler, Plan(seconds=22, daemons=2, has_pooler=True)),
    Scenario("daemons", daemons, Plan(seconds=22, daemons=3)),
    Scenario("receivers", receivers, Plan(seconds=30, may_repeat=False, only_200=True, timeout='"2s"')),
    Scenario("clients", clients, Plan(may_repeat=False, only_200=True)),
    Scenario("clock", clock.clock, Plan(seconds=20, daemons=2, may_repeat=False), why_not=clock.why_not,
             postgres_environment=clock.postgres_environment),
    Scenario("sigterm", sigterm, Plan(may_repeat=False)),
    Scenario("socket", socket_restart, Plan(may_repeat=False, only_200=True, keep_alive=False), prepare=keep_socket),
    Scenario("reload", reload, Plan(may_repeat=False, only_200=True)),
    Scenario("burst", burst, Plan(seconds=12, per_second=300, unsettled_max=20_000)),
    Scenario("dead-letters", letters.dead_letters, letters.PLAN),
    Scenario("operators", operators.operators, operators.PLAN),
    Scenario("shared-holders", shared_holders.shared_holders, shared_holders.PLAN),
    Scenario("mixed", mixed, Plan(seconds=120, daemons=2)),
    Scenario("spool", spooling.spool, spooling.PLAN, prepare=spooling.give_disks, why_not=why_no_small_disk),
    Scenario("upgrade", upgrade.upgrade, upgrade.PLAN, prepare=upgrade.fill_older, why_not=upgrade.why_not,
             needs_older=True),
    Scenario("patroni", failover.patroni, failover.PLAN, why_not=failover.why_not, network=failover.OUTSIDE),
]
# Only if they are asked for: they take minutes.
LONG = ("mixed", "patroni", "spool", "upgrade")
# Always in deploy/test, with seconds of their own; beside them one of the others in turn, by the seed.
SHORT = {"daemon-kill": 6, "failpoints": 15, "postgres-kill": 6, "daemons": 4, "dead-letters": 6, "shared-holders": 8,
         "operators": 6}
IN_TURN = [scenario.name for scenario in SCENARIOS if scenario.name not in (*SHORT, *LONG)]


async def play(scenario: Scenario, bed: Bed) -> None:
    """From the first start to the verdict; whatever keeps it from its end is a finding."""
    try:
        if scenario.prepare:
            await scenario.prepare(bed)
        await bed.open()
        await scenario.run(bed)
        await bed.verdict()
    except (BenchError, OSError, TimeoutError, AssertionError) as error:
        bed.findings.add("it did not come to its end", f"{type(error).__name__}: {error}")
        with contextlib.suppress(BenchError, OSError):
            for daemon in bed.daemons:
                bed.notes.append(f"{daemon.name}: {daemon.process.last_words(3)}")
    finally:
        await bed.close()
