"""The question of growth asked of the peer's queue: what a job costs pgqueuer with so many finished jobs in its log. It
keeps no bodies, no ledger and no message of a finished job, so it has less to write than the daemon."""

import dataclasses
import os
import time

from bench_context import Bench
from cpu import CPUTime
from peer import PROGRAM
from processes import BenchError, run
from write_ahead_log import AFTER_CHECKPOINT, STEADY, Log

DATABASE = "peer"


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

    def reported(self) -> str:
        return (f"{self.size:>10,} finished jobs in pgqueuer's log, {self.when}: {self.postgresql_us:6.0f} µs "
                f"PostgreSQL and {self.wal_bytes / 1e3:.1f} kB of WAL a job, {self.per_second:,.0f} jobs/s")


def by_finished(bench: Bench, sizes: list[int], seconds: int) -> list[Point]:
    """Three loads a size, the first just after a checkpoint, the last of the steady state."""
    points: list[Point] = []
    for size in sizes:
        environment = bench.cluster.environment(bench.cluster.fresh_database(DATABASE))
        for command in ("install", "autovac"):
            run([str(bench.python), "-m", "pgqueuer", command], 60, environment)
        filled = fill(bench, environment, size)
        bench.cluster.checkpoint()
        for when in (AFTER_CHECKPOINT, None, STEADY):
            point = load(bench, environment, size, when, filled, seconds)
            if when:
                points.append(point)
                bench.note(point.reported())
    bench.cluster.fresh_database(DATABASE)
    return points


def ratios(points: list[Point]) -> list[str]:
    """Of each size over the smallest, steady."""
    steady = [point for point in points if point.when == STEADY]
    first = steady[0]
    figures = {"PostgreSQL's time a job": lambda point: point.postgresql_us, "log a job": lambda point: point.wal_bytes,
               "jobs/s": lambda point: point.per_second}
    return [f"pgqueuer; steady, over {first.size:,} finished jobs kept:"] + [
        f"  {name} " + ", ".join(f"{point.size:,}: {figure(point) / figure(first):.2f}" for point in steady)
        for name, figure in figures.items()]


def fill(bench: Bench, environment: dict[str, str], size: int) -> int:
    """Jobs are finished for a moment; what they left in the log is cloned, with ids of their own."""
    began = time.monotonic()
    alone(bench, environment, 0)
    with bench.cluster.session(DATABASE) as session:
        finished, first = map(int, session.row("SELECT count(DISTINCT job_id), max(job_id) + 1 FROM pgqueuer_log"))
        session.ask(f"SELECT setval(pg_get_serial_sequence('pgqueuer', 'id'), {first + size})")
        session.ask(
            "INSERT INTO pgqueuer_log (created, job_id, status, priority, entrypoint, traceback, aggregated) "
            "SELECT created, n, status, priority, entrypoint, traceback, aggregated "
            f"FROM generate_series({first}, {first + size - finished - 1}) n, "
            "(SELECT * FROM pgqueuer_log WHERE job_id = (SELECT min(job_id) FROM pgqueuer_log)) AS t")
        jobs = session.number("SELECT count(DISTINCT job_id) FROM pgqueuer_log WHERE status = 'successful'")
        if jobs != size:
            raise BenchError(f"{size} jobs should be in pgqueuer's log, and {jobs:.0f} are")
        session.ask("VACUUM (ANALYZE)")
        filled = int(session.number("SELECT pg_database_size(current_database())"))
    bench.note(f"{size:,} jobs made, {filled / 1e9:.2f} GB ({time.monotonic() - began:.0f} s)")
    return filled


def load(bench: Bench, environment: dict[str, str], size: int, when: str, filled: int, seconds: int) -> Point:
    server = bench.cluster.server.child.pid
    with bench.cluster.session(DATABASE) as session:
        log, before = Log.now(session), CPUTime.now(os.getpid(), server)
        jobs, took = alone(bench, environment, seconds)
        spent, written = CPUTime.now(os.getpid(), server) - before, Log.now(session)
    return Point(size, when, jobs, jobs / took, spent.postgresql / jobs * 1e6, (written.bytes - log.bytes) / jobs,
                 filled)


def alone(bench: Bench, environment: dict[str, str], seconds: int) -> tuple[int, float]:
    """How many jobs were finished, and in which time."""
    said = run([str(bench.python), str(PROGRAM / "queue_alone.py"), f"{seconds}"], 60 + 20 * seconds, environment)
    jobs, took = said.split()
    return int(jobs), float(took)
