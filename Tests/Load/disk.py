"""P1 and P4 on disks whose flush takes longer than this machine's.

What PostgreSQL alone can commit, one row a transaction, is decided by how long the disk takes to flush the log; what the
daemon can acknowledge is mostly decided by the processors. `commit_delay` makes PostgreSQL wait before each flush, whoever
commits. Unlike a slow disk's own, such a flush takes in what is committed during the wait, which helps the side with more
commits: pgbench."""

import contextlib
from collections.abc import Iterator

import goals_ingest
from bench_context import Bench
from report import Row

WAITS_US = [0, 500, 1_000, 2_000, 5_000]


@contextlib.contextmanager
def flushes_wait(bench: Bench, microseconds: int) -> Iterator[None]:
    with bench.cluster.session("postgres") as session:
        # Zero siblings: also for a lone commit.
        for name, value in [("commit_siblings", 0), ("commit_delay", microseconds)]:
            session.ask(f"ALTER SYSTEM SET {name} = {value}")
        session.ask("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            for name in ["commit_siblings", "commit_delay"]:
                session.ask(f"ALTER SYSTEM RESET {name}")
            session.ask("SELECT pg_reload_conf()")


def measure(bench: Bench) -> list[Row]:
    rows = []
    for wait in WAITS_US:
        print(f"P1 and P4, a flush {wait / 1000:g} ms longer", flush=True)
        with flushes_wait(bench, wait):
            for row in [*goals_ingest.p1_plain(bench), *goals_ingest.p4(bench)]:
                row.what += f"; a flush {wait / 1000:g} ms longer"
                rows.append(row)
    return rows
