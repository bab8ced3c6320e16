"""P1 and P4: how fast a webhook is acknowledged, beside what PostgreSQL alone can commit."""

from bench_context import Bench
from processes import BenchError
from report import Row

DATABASE = "ingest"


def p1(bench: Bench) -> list[Row]:
    """256 connections, no receivers, the full ledger; pgbench's 32 clients get the most out of one-row commits."""
    acknowledged, limit = [], []
    for _ in range(bench.repetitions):
        acknowledged.append(acknowledged_per_second(bench, bench.cluster.fresh_database(DATABASE)))
        limit.append(bench.one_row.per_second(bench.seconds))
        bench.note(f"acknowledged {acknowledged[-1]:,.0f}/s, pgbench {limit[-1]:,.0f}/s")
    return [Row("P1", "events acknowledged, 256 connections", "/s", acknowledged, "≥ 1.5",
                "pgbench: one durable 1 KB row, 32 clients", limit)]


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
