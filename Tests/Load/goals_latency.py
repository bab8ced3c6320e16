"""P5: how soon a receiver hears of what is committed.

Two clocks of one machine. The commit: PostgreSQL's own commit timestamp (track_commit_timestamp), which it takes right
before the commit record is flushed, so that the flush counts as ours. The first byte: when the receiver's event loop
reads it (stamping_receiver.py). The acknowledgement's arrival at the sender would be the other choice for the commit;
it comes after it, and a delivery may overtake it.
"""

import socket
import statistics
import sys

from bench_context import Bench
from processes import BenchError, Process, wait_until
from relay import Integration
from report import Row

DATABASE = "latency"
PORT, FAN_OUT = 9502, 3
# A connection rests between nothing and twice this long before each webhook, and its answer takes some ms beside that:
# about 500 events a second.
CONNECTIONS, MEAN_PAUSE_MS = 64, 122


def p5(bench: Bench) -> list[Row]:
    """500 events a second, spread at random, to three receivers."""
    medians, tails, rates = [], [], []
    bench.cluster.restart({"track_commit_timestamp": "on"})
    try:
        for _ in range(bench.repetitions):
            waits, rate = once(bench, max(bench.seconds, 3))
            cuts = statistics.quantiles(waits, n=100)
            medians.append(cuts[49])
            tails.append(cuts[98])
            rates.append(rate)
            bench.note(f"p50 {medians[-1]:.2f} ms, p99 {tails[-1]:.2f} ms of {len(waits)} at {rate:.0f} events/s")
    finally:
        bench.cluster.restart({})
    what = f"commit → first byte, {statistics.median(rates):.0f} events/s, fan-out {FAN_OUT}"
    return [Row("P5", f"{what}, p50", "ms", medians, "≤ 3"), Row("P5", f"{what}, p99", "ms", tails, "≤ 20")]


def once(bench: Bench, seconds: float) -> tuple[list[float], float]:
    """Milliseconds from commit to first byte of each delivery, and the events a second that wrk reached."""
    stamps = bench.scratch.path / "stamps"
    program = str(bench.program("stamping_receiver.py"))
    receiver = Process(bench.scratch, "stamping", [sys.executable, program, str(PORT), str(stamps)])
    wait_until("the receiver's start", lambda: listens(PORT), 10)
    integrations = [Integration(f"receiver{number}", f"http://127.0.0.1:{PORT}/{number}")
                    for number in range(1, FAN_OUT + 1)]
    with bench.relay(bench.cluster.fresh_database(DATABASE), integrations), bench.cluster.session(DATABASE) as session:
        bench.send(1, connections=8, mean_pause_ms=50)
        wait_until("an empty queue", lambda: session.ask("SELECT NOT EXISTS (SELECT FROM deliveries)") == "t", 30)
        warm = session.number("SELECT max(id) FROM messages")
        sent = bench.send(seconds, connections=CONNECTIONS, mean_pause_ms=MEAN_PAUSE_MS)
        wait_until("an empty queue", lambda: session.ask("SELECT NOT EXISTS (SELECT FROM deliveries)") == "t", 30)
        committed = dict(line.split("|") for line in session.ask(
            "SELECT 'msg_' || replace(coalesce(m.key, e.key)::text, '-', ''), "
            "(extract(epoch FROM pg_xact_commit_timestamp(m.xmin)) * 1000000)::bigint "
            f"FROM messages m JOIN events e ON e.id = m.event WHERE m.id > {warm:.0f}").splitlines())
    receiver.stop()
    waits = []
    for line in stamps.read_text().splitlines():
        identifier, nanoseconds = line.split()
        if identifier in committed:
            waits.append(int(nanoseconds) / 1e6 - int(committed[identifier]) / 1000)
    stamps.unlink()
    if len(waits) != len(committed) * FAN_OUT:
        raise BenchError(f"{len(committed)} messages were committed, {len(waits)} deliveries arrived")
    return waits, sent.per_second


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
