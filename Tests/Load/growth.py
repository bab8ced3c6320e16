"""How the cost of an event grows: with the events that are stored, and with the integrations that are configured."""

import dataclasses
import time

from bench_context import Bench
from clones import clone_events
from cpu import CPUTime
from relay import Integration, healthy
from waiting import DEAD_URL

DATABASE = "growth"
FAN_OUT = 3
STORED, STORED_QUICK = [10**power for power in range(3, 8)], [10**3, 10**4]
INTEGRATIONS, INTEGRATIONS_QUICK = [1, 10, 100, 1000], [1, 100]
# Deliveries that a run with every integration wanting the event comes to, about.
ALL_WANT_DELIVERIES = 100_000
# nginx has 4,096 connections for all of them.
CONNECTIONS_OF_ALL = 2_000
WAL_BYTES = "SELECT pg_current_wal_lsn() - '0/0'"


@dataclasses.dataclass
class Point:
    """What an event cost, at a size."""

    size: int
    events: int
    deliveries: int
    per_second: float
    # Microseconds of processor time an event.
    daemon_us: float
    postgresql_us: float
    memory_mb: float
    # PostgreSQL's write-ahead log, an event.
    wal_bytes: float
    # The whole database afterwards.
    database_bytes: float

    def reported(self, of: str) -> str:
        return (f"{self.size:>10,} {of}: {self.daemon_us:6.0f} µs daemon, {self.postgresql_us:6.0f} µs PostgreSQL an "
                f"event, {self.per_second:,.0f} deliveries/s, {self.memory_mb:.0f} MB, {self.wal_bytes / 1e3:.1f} kB "
                f"of WAL an event, {self.database_bytes / 1e9:.2f} GB in all")


def growth(bench: Bench) -> dict[str, list[dict]]:
    """Processor time an event, fan-out 3, by events stored and by integrations; and with all of them wanting it."""
    return {"stored": by_stored(bench), "integrations": by_integrations(bench, all_want=False),
            "integrations_all_want": by_integrations(bench, all_want=True)}


def by_stored(bench: Bench) -> list[dict]:
    """One database, filled on from size to size; what a measurement adds to it is cloned less."""
    bench.cluster.fresh_database(DATABASE)
    with bench.relay(DATABASE, healthy(bench.nginx, FAN_OUT)):
        bench.send(1, connections=1, pause_ms=400)
    points, cloned = [], 0
    for size in STORED_QUICK if bench.is_quick else STORED:
        with bench.cluster.session(DATABASE) as session:
            count = size - int(session.number("SELECT count(*) FROM events"))
            if count > 0:
                began = time.monotonic()
                clone_events(session, cloned, count, attempts=FAN_OUT)
                cloned += count
                session.ask("VACUUM (ANALYZE)")
                bench.note(f"{count:,} events made ({time.monotonic() - began:.0f} s)")
            size = int(session.number("SELECT count(*) FROM events"))
        bench.cluster.checkpoint()
        point = measure(bench, size, healthy(bench.nginx, FAN_OUT), seconds=2)
        bench.note(point.reported("stored"))
        points.append(dataclasses.asdict(point))
    return points


def by_integrations(bench: Bench, all_want: bool) -> list[dict]:
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
        few = {"connections": 1, "pause_ms": 1000 * size * 2 // ALL_WANT_DELIVERIES} if wanting > 10 else {}
        point = measure(bench, size, integrations, seconds=2, **few)
        bench.note(point.reported("integrations, all wanting" if all_want else "integrations, three wanting"))
        points.append(dataclasses.asdict(point))
    return points


def measure(bench: Bench, size: int, integrations: list[Integration], seconds: int, **options: int) -> Point:
    with bench.relay(DATABASE, integrations) as relay:
        # Prepared statements, connections and caches are made once, not by every event.
        bench.deliver(DATABASE, 1, connections=4, pause_ms=200)
        processes = relay.process.child.pid, bench.cluster.server.child.pid
        with bench.cluster.session(DATABASE) as session:
            before, written = CPUTime.now(*processes), session.number(WAL_BYTES)
            settled = bench.deliver(DATABASE, seconds, **options)
            spent, written = CPUTime.now(*processes) - before, session.number(WAL_BYTES) - written
            whole = session.number("SELECT pg_database_size(current_database())")
        memory = relay.process.peak_memory_mb()
    return Point(size, settled.events, settled.deliveries, settled.per_second, spent.daemon / settled.events * 1e6,
                 spent.postgresql / settled.events * 1e6, memory, written / settled.events, whole)
