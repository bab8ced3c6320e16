"""P1 and P4: how fast a webhook is acknowledged, beside what PostgreSQL alone can commit."""

import shutil
import statistics
from collections.abc import Callable

from bench_context import Bench
from processes import BenchError, run
from relay import INGEST
from report import Row
from traffic import wrk

DATABASE = "ingest"
# Bodies as Apple signs them: more than are acknowledged in a second.
SEALED_PER_SECOND = 12_000
# wrk's.
THREADS = 2


def p1(bench: Bench) -> list[Row]:
    """256 connections, no receivers, the full ledger; pgbench's 32 clients get the most out of one-row commits."""
    sealed = []
    [row] = p1_plain(bench, lambda: sealed.append(sealed_per_second(bench, bench.cluster.fresh_database(DATABASE))))
    row.notes = [f"of Apple's, 13 kB with three signatures each (ES256): {statistics.median(sealed):,.0f}/s, "
                 f"{statistics.median(sealed) / statistics.median(row.figures):.2f} of those"]
    return [row]


def p1_plain(bench: Bench, after_each: Callable[[], None] = lambda: None) -> list[Row]:
    acknowledged, limit = [], []
    for _ in range(bench.repetitions):
        acknowledged.append(acknowledged_per_second(bench, bench.cluster.fresh_database(DATABASE)))
        limit.append(bench.one_row.per_second(bench.seconds))
        bench.note(f"acknowledged {acknowledged[-1]:,.0f}/s, pgbench {limit[-1]:,.0f}/s")
        after_each()
    return [Row("P1", "events acknowledged, 256 connections", "/s", acknowledged, "≥ 1.5",
                "pgbench: one durable 1 KB row, 32 clients", limit)]


def sealed_per_second(bench: Bench, database: str) -> float:
    """The same of notifications as the App Store signs them."""
    directory = bench.scratch.path / "sealed"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    count = SEALED_PER_SECOND * bench.seconds // THREADS
    root = run([str(bench.python), str(bench.program("sealed_bodies.py")), str(bench.binary), str(directory),
                str(THREADS), str(count)], patience_s=600).strip()
    source = f"""
            name = "apple"
            kind = "apple"
            bundle_ids = ["com.example.app"]
            roots = ["{root}"]"""
    bench.cluster.checkpoint()
    with bench.relay(database, [], source), bench.cluster.session(database) as session:
        files = [str(directory / str(thread)) for thread in range(THREADS)]
        sent = wrk("sealed.lua", files, INGEST.rsplit("/", 1)[0] + "/apple", bench.seconds, threads=THREADS)
        stored = session.number("SELECT count(*) FROM events")
        if stored < sent.acknowledged:
            raise BenchError(f"{sent.acknowledged} webhooks were acknowledged, {stored:.0f} are in the database")
        return sent.per_second


def acknowledged_per_second(bench: Bench, database: str, integrations: list = ()) -> float:
    bench.cluster.checkpoint()
    with bench.relay(database, list(integrations)), bench.cluster.session(database) as session:
        before = session.number("SELECT count(*) FROM events")
        sent = bench.send()
        stored = session.number("SELECT count(*) FROM events") - before
        # What was under way when wrk stopped may be stored beyond what it counted.
        if stored < sent.acknowledged:
            raise BenchError(f"{sent.acknowledged} webhooks were acknowledged, {stored:.0f} are in the database")
        return sent.per_second


def p4(bench: Bench) -> list[Row]:
    """One client, one webhook after the other: the median answer beside the median of one client's commits."""
    answers, commits, p99 = [], [], []
    for _ in range(bench.repetitions):
        with bench.relay(bench.cluster.fresh_database(DATABASE), []):
            # The first ones find cold caches and plans that are not made yet.
            bench.send(1, connections=1, threads=1)
            sent = bench.send(connections=1, threads=1)
        answers.append(sent.p50_ms)
        p99.append(sent.p99_ms)
        commits.append(bench.one_row.commit_ms(bench.seconds))
        bench.note(f"answer {answers[-1]:.3f} ms, pgbench's commit {commits[-1]:.3f} ms")
    return [Row("P4", "acknowledgement at rest, one client, p50", "ms", answers, "≤ 2",
                "pgbench: one commit, one client, p50", commits,
                notes=[f"the answers' p99: {max(p99):.2f} ms at most"])]
