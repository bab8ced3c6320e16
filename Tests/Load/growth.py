"""How the cost of an event grows: with the events that are stored, and with the integrations that are configured."""

import contextlib
import dataclasses
import pathlib
import shutil
import time

import clones
import peer_growth
from bench_context import Bench
from clones import RUN, Template
from cpu import CPUTime
from memory_limit import LEAST_BYTES, MemoryLimit, why_none
from processes import BenchError
from relay import Integration, Relay, healthy
from waiting import DEAD_URL
from write_ahead_log import AFTER_CHECKPOINT, STEADY, Log

DATABASE = "growth"
FAN_OUT = 3
STORED, STORED_QUICK = [10**3, 10**5, 10**6, 10**7], [10**3, 10**4]
INTEGRATIONS, INTEGRATIONS_QUICK = [1, 10, 100, 1000], [1, 100]
# Of a load; each point of a size of `by_stored` has three.
SECONDS, SECONDS_QUICK = 20, 2
# Of a hundred events; the others are of new purchases.
RENEWALS = 50
# Deliveries that a run with every integration wanting the event comes to, about.
ALL_WANT_DELIVERIES = 100_000
# nginx has 4,096 connections for all of them.
CONNECTIONS_OF_ALL = 2_000
# No checkpoint but those that are asked for, while a point is measured.
SETTINGS = {"checkpoint_timeout": "1h", "max_wal_size": "8GB"}
# Of disk: an event as the widest layout stores it, and the log with what the measurements add.
BYTES_AN_EVENT, BYTES_BESIDE = 4_500, 10_000_000_000
# A job that a peer keeps, the widest of them.
BYTES_A_JOB = 2_000
THIS, OTHER = "this build", "the other build"


@dataclasses.dataclass
class Cost:
    """What an event cost, at a size."""

    size: int
    events: int
    deliveries: int
    acknowledged_per_second: float
    # Of the acknowledgement, under full load.
    p99_ms: float
    per_second: float
    # Microseconds of processor time an event.
    daemon_us: float
    postgresql_us: float
    memory_mb: float
    # PostgreSQL's write-ahead log, an event; and pages that it holds as a whole, an event, about.
    wal_bytes: float
    page_images: float
    had_checkpoint: bool
    # The whole database afterwards.
    database_bytes: float

    def reported(self, of: str) -> str:
        return (f"{self.size:>10,} {of}: {self.daemon_us:6.0f} µs daemon, {self.postgresql_us:6.0f} µs PostgreSQL an "
                f"event, {self.acknowledged_per_second:,.0f} acknowledged/s (p99 {self.p99_ms:.0f} ms), "
                f"{self.per_second:,.0f} deliveries/s, {self.memory_mb:.0f} MB, {self.wal_bytes / 1e3:.1f} kB of WAL "
                f"and {self.page_images:.1f} whole pages an event, {self.database_bytes / 1e9:.2f} GB in all"
                + (", with a checkpoint in between" if self.had_checkpoint else ""))


@dataclasses.dataclass
class Point:
    """One of `by_stored`."""

    build: str
    when: str
    # Bytes that PostgreSQL had; none: as much as the machine has.
    memory_limit: int | None
    # The database with the events stored and nothing else.
    filled_bytes: int
    cost: Cost

    def reported(self) -> str:
        limited = f", {self.memory_limit / 1e9:.2f} GB of memory" if self.memory_limit else ""
        return self.cost.reported(f"stored, {self.build}, {self.when}{limited}")

    def as_json(self) -> dict:
        return {"build": self.build, "when": self.when, "memory_limit": self.memory_limit,
                "filled_bytes": self.filled_bytes} | dataclasses.asdict(self.cost)


def growth(bench: Bench, other: pathlib.Path | None, sizes: list[int] | None, seconds: int | None,
           peers: list[str] | None) -> dict:
    """Processor time and log an event, fan-out 3, by events stored; of both builds, where there is another, and of the
    peers' queues, a job. And by integrations, three or all of them wanting it. With `peers` theirs alone."""
    sizes = sizes or (STORED_QUICK if bench.is_quick else STORED)
    seconds = seconds or (SECONDS_QUICK if bench.is_quick else SECONDS)
    need_disk(bench, max(sizes), BYTES_A_JOB if peers else BYTES_AN_EVENT)
    settings = SETTINGS | compressed(bench)
    bench.note("PostgreSQL's settings: " + ", ".join(f"{name} = {value}" for name, value in settings.items()))
    bench.cluster.restart(settings)
    try:
        points = [] if peers else by_stored(bench, other, sizes, seconds)
        of_peers = peer_growth.by_finished(bench, peers or list(peer_growth.PEERS), sizes, seconds)
    finally:
        bench.cluster.restart({})
    for line in ratios(points) + peer_growth.ratios(of_peers) + peer_growth.table(of_peers):
        print(line, flush=True)
    measured = {"seconds": seconds, "postgresql_settings": settings} | {
        name: [dataclasses.asdict(point) for point in of_peer] for name, of_peer in of_peers.items()}
    if peers:
        return measured
    return measured | {"renewals_percent": RENEWALS, "stored": [point.as_json() for point in points],
                       "integrations": by_integrations(bench, seconds, all_want=False),
                       "integrations_all_want": by_integrations(bench, seconds, all_want=True)}


def need_disk(bench: Bench, stored: int, bytes_each: int) -> None:
    free, needed = shutil.disk_usage(bench.scratch.path).free, bytes_each * stored + BYTES_BESIDE
    if free < needed:
        raise BenchError(f"{stored:,} stored need {needed / 1e9:.0f} GB below {bench.scratch.PARENT}, and "
                         f"{free / 1e9:.0f} GB are free: --sizes takes others")


def compressed(bench: Bench) -> dict[str, str]:
    with bench.cluster.session("postgres") as session:
        has_lz4 = session.ask("SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'wal_compression'") == "t"
    return {"wal_compression": "lz4"} if has_lz4 else {}


def by_stored(bench: Bench, other: pathlib.Path | None, sizes: list[int], seconds: int) -> list[Point]:
    """Each size and build in a database of its own, one at a time: two would need twice the disk."""
    builds = {THIS: bench} | ({OTHER: dataclasses.replace(bench, binary=other)} if other else {})
    missing = why_none()
    bench.note(f"each size, build and memory takes three loads of {seconds} s, and the time until they are settled; "
               f"{RENEWALS} % of the events are renewals of stored purchases")
    if missing:
        bench.note(f"SKIPPED: the database of twice the memory: PostgreSQL's cannot be limited here: {missing}")
    points: list[Point] = []
    with contextlib.ExitStack() as stack:
        # From before the databases are made: who uses a page first is charged for it as long as it is cached.
        limit = None if missing else stack.enter_context(MemoryLimit(bench.cluster))
        for size in sizes:
            # The memory is half of this build's database; the other has the same.
            half = None
            for name, build in builds.items():
                filled = fill(build, size)
                half = half or filled // 2
                points += loads(build, name, size, filled, seconds, None)
                if limit and half >= LEAST_BYTES:
                    # What is not yet written could not be dropped.
                    bench.cluster.checkpoint()
                    limit.set(half)
                    points += loads(build, name, size, filled, seconds, half)
                    limit.set(None)
                elif limit:
                    bench.note(f"{size:>10,} stored: half of it is too little memory for PostgreSQL: not limited")
        bench.cluster.fresh_database(DATABASE)
    return points


def fill(bench: Bench, size: int) -> int:
    """The bytes of the database."""
    began = time.monotonic()
    bench.cluster.fresh_database(DATABASE)
    template = Template(bench, DATABASE, healthy(bench.nginx, FAN_OUT))
    with bench.cluster.session(DATABASE) as session:
        clones.fill(template, session, size)
        filled = int(session.number("SELECT pg_database_size(current_database())"))
        purchases = session.number("SELECT count(*) FROM purchases")
        with bench.relay(DATABASE, healthy(bench.nginx, FAN_OUT)):
            bench.deliver(DATABASE, 1, connections=1, pause_ms=100, **stored(size, renewals=100))
        if session.number("SELECT count(*) FROM purchases") != purchases:
            raise BenchError("a renewal of a purchase that clones.py made has made a new one")
    bench.note(f"{size:,} events made, {filled / 1e9:.2f} GB ({time.monotonic() - began:.0f} s): {template.tables()}")
    return filled


def stored(size: int, renewals: int) -> dict[str, int | str]:
    """What webhooks.lua sends."""
    return {"renewals": renewals, "stored": size, "stored_run": RUN}


def loads(bench: Bench, build: str, size: int, filled: int, seconds: int, limit: int | None) -> list[Point]:
    """Two points: the load that begins with a checkpoint, and the third one after it."""
    options = stored(size, RENEWALS)
    with bench.relay(DATABASE, healthy(bench.nginx, FAN_OUT)) as relay:
        warm_up(bench)
        bench.cluster.checkpoint()
        first = cost(bench, relay, size, seconds, **options)
        points = [Point(build, AFTER_CHECKPOINT, limit, filled, first)]
        bench.note(points[0].reported())
        # By now many of the pages that an event touches have been written to the log as a whole.
        bench.deliver(DATABASE, seconds, **options)
        points.append(Point(build, STEADY, limit, filled, cost(bench, relay, size, seconds, **options)))
        bench.note(points[1].reported())
    with bench.cluster.session(DATABASE) as session:
        if session.ask("SELECT EXISTS (SELECT FROM quarantine) OR EXISTS (SELECT FROM transfers)") == "t":
            raise BenchError("renewals were quarantined, or have moved a purchase: the figures are of something else")
    return points


def by_integrations(bench: Bench, seconds: int, all_want: bool) -> list[dict]:
    points = []
    for size in INTEGRATIONS_QUICK if bench.is_quick else INTEGRATIONS:
        bench.cluster.fresh_database(DATABASE)
        # Three want the event wherever not all do.
        size = size if all_want else max(size, FAN_OUT)
        wanting = size if all_want else FAN_OUT
        # With many that want it few events are enough, one after the other.
        settings = {"concurrency": str(CONNECTIONS_OF_ALL // size)} if size > 100 and all_want else {}
        integrations = healthy(bench.nginx, wanting, **settings)
        integrations += [Integration(f"other{number}", DEAD_URL, {"events": '["NEVER_SENT"]'})
                         for number in range(size - wanting)]
        few = {}
        if wanting > 10:
            few = {"connections": 1, "pause_ms": 1000 * seconds * size // ALL_WANT_DELIVERIES}
        with bench.relay(DATABASE, integrations) as relay:
            warm_up(bench)
            point = cost(bench, relay, size, seconds, **few)
        bench.note(point.reported("integrations, all wanting" if all_want else "integrations, three wanting"))
        points.append(dataclasses.asdict(point))
    return points


def warm_up(bench: Bench) -> None:
    """Prepared statements, connections and caches are made once, not by every event."""
    bench.deliver(DATABASE, 1, connections=4, pause_ms=200)


def cost(bench: Bench, relay: Relay, size: int, seconds: int, **options: int | str) -> Cost:
    processes = relay.process.child.pid, bench.cluster.server.child.pid
    with bench.cluster.session(DATABASE) as session:
        log, before = Log.now(session), CPUTime.now(*processes)
        settled = bench.deliver(DATABASE, seconds, **options)
        spent, written = CPUTime.now(*processes) - before, Log.now(session)
        whole = session.number("SELECT pg_database_size(current_database())")
    return Cost(size, settled.events, settled.deliveries, settled.sent.per_second, settled.sent.p99_ms,
                settled.per_second, spent.daemon / settled.events * 1e6, spent.postgresql / settled.events * 1e6,
                relay.process.peak_memory_mb(), (written.bytes - log.bytes) / settled.events,
                (written.page_images - log.page_images) / settled.events, written.checkpoint != log.checkpoint, whole)


def ratios(points: list[Point]) -> list[str]:
    """What a reader compares: each size with the smallest, the log of an event, one build with the other."""
    builds, sizes = (list(dict.fromkeys(values)) for values in (
        [point.build for point in points], [point.cost.size for point in points]))
    lines = []
    for build in builds:
        of_build = [point for point in points if point.build == build]
        smallest = next(point.cost for point in of_build if point.when == STEADY)
        for limited in (False, True):
            steady, fresh = ([point.cost for point in of_build if point.when == when and
                              bool(point.memory_limit) == limited] for when in (STEADY, AFTER_CHECKPOINT))
            if steady:
                lines += [f"{build}{of_memory(limited)}; steady, over {sizes[0]:,} stored:",
                          "  processor time an event " + by_size(steady, lambda c: f"{us(c) / us(smallest):.2f}"),
                          "  of it PostgreSQL's      " + by_size(
                              steady, lambda c: f"{c.postgresql_us / smallest.postgresql_us:.2f}"),
                          "  deliveries/s            " + by_size(
                              steady, lambda c: f"{c.per_second / smallest.per_second:.2f}"),
                          "  log an event, steady    " + by_size(steady, lambda c: f"{c.wal_bytes / 1e3:.1f} kB"),
                          "  after a checkpoint      " + by_size(fresh, lambda c: f"{c.wal_bytes / 1e3:.1f} kB")]
    theirs = {(point.cost.size, point.when, bool(point.memory_limit)): point for point in points
              if point.build == OTHER}
    if theirs:
        lines.append(f"{THIS} over {OTHER}:")
    for ours in points:
        key = ours.cost.size, ours.when, bool(ours.memory_limit)
        if ours.build == THIS and key in theirs:
            lines.append(f"  {ours.cost.size:,} stored, {ours.when}{of_memory(bool(ours.memory_limit))}: " + ", ".join(
                f"{name} {figure(ours) / figure(theirs[key]):.2f}" for name, figure in COMPARED.items()))
    return lines


# One build with the other.
COMPARED = {"processor time an event": lambda point: us(point.cost),
            "of it PostgreSQL's": lambda point: point.cost.postgresql_us,
            "log an event": lambda point: point.cost.wal_bytes,
            "database": lambda point: point.filled_bytes,
            "acknowledged/s": lambda point: point.cost.acknowledged_per_second,
            "deliveries/s": lambda point: point.cost.per_second,
            "p99 of the acknowledgement": lambda point: point.cost.p99_ms}


def of_memory(limited: bool) -> str:
    return ", a database of twice the memory" if limited else ""


def us(cost: Cost) -> float:
    return cost.daemon_us + cost.postgresql_us


def by_size(costs: list[Cost], text) -> str:
    return ", ".join(f"{cost.size:,}: {text(cost)}" for cost in costs)
