"""The question of growth asked of the peers' queues: what a job costs with so many finished jobs kept. They have no
ledger, and pgqueuer keeps nothing of a finished job but that it was, so they have less to write than the daemon."""

import dataclasses
import os
import time
from typing import Protocol

import peer_awa
import peer_pgqueuer
import peer_river
from bench_context import Bench
from cluster import ROLE, Session
from cpu import CPUTime
from peer import PROGRAM
from processes import BenchError, run
from write_ahead_log import AFTER_CHECKPOINT, STEADY, Log

DATABASE = "peer"


class Peer(Protocol):
    """A module of its own, and beside it a load in peer-program, NAME_alone.py."""

    NAME: str
    # SQL: how many finished jobs there are.
    FINISHED: str

    def install(self, bench: Bench, environment: dict[str, str]) -> None: ...

    def clone(self, session: Session, size: int) -> None:
        """Makes so many finished jobs of those that a batch has left."""


PEERS: dict[str, Peer] = {peer.NAME: peer for peer in (peer_pgqueuer, peer_river, peer_awa)}


@dataclasses.dataclass
class Point:
    size: int
    when: str
    jobs: int
    per_second: float
    # Microseconds of PostgreSQL's processor time, a job.
    postgresql_us: float
    # Of its write-ahead log, a job.
    wal_bytes: float
    # The database with the finished jobs and nothing else.
    filled_bytes: int

    def reported(self, name: str) -> str:
        return (f"{self.size:>10,} finished jobs kept by {name}, {self.when}: {self.postgresql_us:6.0f} µs PostgreSQL "
                f"and {self.wal_bytes / 1e3:.1f} kB of WAL a job, {self.per_second:,.0f} jobs/s")


def by_finished(bench: Bench, names: list[str], sizes: list[int], seconds: int) -> dict[str, list[Point]]:
    """Three loads a size, the first just after a checkpoint, the last of the steady state."""
    points: dict[str, list[Point]] = {name: [] for name in names}
    for name in names:
        for size in sizes:
            environment = prepared(bench)
            filled = fill(bench, PEERS[name], environment, size)
            bench.cluster.checkpoint()
            for when in (AFTER_CHECKPOINT, None, STEADY):
                point = load(bench, name, environment, size, when, filled, seconds)
                if when:
                    points[name].append(point)
                    bench.note(point.reported(name))
            with bench.cluster.session(DATABASE) as session:
                if session.number(PEERS[name].FINISHED) <= size:
                    raise BenchError(f"{name} has dropped finished jobs meanwhile: the figures are of something else")
    bench.cluster.fresh_database(DATABASE)
    return points


def prepared(bench: Bench) -> dict[str, str]:
    """Of an empty database: libpq's variables, and a URL."""
    database = bench.cluster.fresh_database(DATABASE)
    return bench.cluster.environment(database) | {
        "DATABASE_URL": f"postgresql://{ROLE}@localhost:5432/{database}?host={bench.cluster.sockets}"}


def table(points: dict[str, list[Point]]) -> list[str]:
    """That of RESULTS.md."""
    lines = ["| queue | finished jobs | PostgreSQL, a job, just after a checkpoint | steady | log, a job, just after a "
             "checkpoint | steady | jobs/s, just after a checkpoint | steady |", "|---|---|---|---|---|---|---|---|"]
    for name, of_peer in points.items():
        for size in dict.fromkeys(point.size for point in of_peer):
            both = [next(point for point in of_peer if (point.size, point.when) == (size, when))
                    for when in (AFTER_CHECKPOINT, STEADY)]
            cells = [name, f"{size:,}", *(f"{point.postgresql_us:,.0f} µs" for point in both),
                     *(f"{point.wal_bytes / 1e3:.1f} kB" for point in both),
                     *(f"{point.per_second:,.0f}" for point in both)]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def ratios(points: dict[str, list[Point]]) -> list[str]:
    """Of each size over the smallest, steady."""
    lines = []
    figures = {"PostgreSQL's time a job": lambda point: point.postgresql_us, "log a job": lambda point: point.wal_bytes,
               "jobs/s": lambda point: point.per_second}
    for name, of_peer in points.items():
        steady = [point for point in of_peer if point.when == STEADY]
        lines += [f"{name}; steady, over {steady[0].size:,} finished jobs kept:"] + [
            f"  {what} " + ", ".join(f"{point.size:,}: {figure(point) / figure(steady[0]):.2f}" for point in steady)
            for what, figure in figures.items()]
    return lines


def fill(bench: Bench, peer: Peer, environment: dict[str, str], size: int) -> int:
    """Jobs are finished for a moment; what they left is cloned, with ids of its own."""
    began = time.monotonic()
    peer.install(bench, environment)
    alone(bench, peer.NAME, environment, 0)
    with bench.cluster.session(DATABASE) as session:
        peer.clone(session, size)
        jobs = session.number(peer.FINISHED)
        if jobs != size:
            raise BenchError(f"{peer.NAME} should keep {size} finished jobs, and keeps {jobs:.0f}")
        session.ask("VACUUM (ANALYZE)")
        filled = int(session.number("SELECT pg_database_size(current_database())"))
    bench.note(f"{size:,} jobs of {peer.NAME} made, {filled / 1e9:.2f} GB ({time.monotonic() - began:.0f} s)")
    return filled


def load(bench: Bench, name: str, environment: dict[str, str], size: int, when: str, filled: int,
         seconds: int) -> Point:
    server = bench.cluster.server.child.pid
    with bench.cluster.session(DATABASE) as session:
        log, before = Log.now(session), CPUTime.now(os.getpid(), server)
        jobs, took = alone(bench, name, environment, seconds)
        spent, written = CPUTime.now(os.getpid(), server) - before, Log.now(session)
    return Point(size, when, jobs, jobs / took, spent.postgresql / jobs * 1e6, (written.bytes - log.bytes) / jobs,
                 filled)


def alone(bench: Bench, name: str, environment: dict[str, str], seconds: int) -> tuple[int, float]:
    """How many jobs were finished, and in which time."""
    said = run([str(bench.python), str(PROGRAM / f"{name}_alone.py"), f"{seconds}"], 60 + 20 * seconds, environment)
    jobs, took = said.split()
    return int(jobs), float(took)
