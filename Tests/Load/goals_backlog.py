"""P7 and P8: what a large backlog and an old snapshot cost."""

import statistics
import time

from bench_context import Bench
from goals_delivery import FAN_OUT
from goals_ingest import acknowledged_per_second
from idle import idle_connections
from relay import healthy
from report import Row
from waiting import dead, fill

WAITING, WAITING_QUICK = 1_000_000, 100_000
IDLE_CONNECTIONS = 10_000
# Of each side.
HELD_S, HELD_QUICK_S = 600, 30
# The dead receiver's backlog is what is measured; nothing new comes to it, so that both sides do the same work.
NOTHING_NEW = '["NEVER_SENT"]'


def p7(bench: Bench) -> list[Row]:
    """P1 and P2 with a million deliveries waiting for a dead receiver, and without; the daemon's memory."""
    count = WAITING_QUICK if bench.is_quick else WAITING
    began = time.monotonic()
    fill(bench, "waiting", count)
    bench.cluster.fresh_database("nothing_waiting")
    bench.note(f"{count:,} deliveries made to wait ({time.monotonic() - began:.0f} s)")
    sides = {"waiting": [dead(NOTHING_NEW)], "nothing_waiting": []}
    acknowledged: dict[str, list[float]] = {side: [] for side in sides}
    settled: dict[str, list[float]] = {side: [] for side in sides}
    memory = []
    for _ in range(bench.repetitions):
        for side, others in sides.items():
            acknowledged[side].append(acknowledged_per_second(bench, side, others))
            bench.cluster.checkpoint()
            with bench.relay(side, healthy(bench.nginx, FAN_OUT) + others) as relay:
                settled[side].append(bench.deliver(side).per_second)
                if others:
                    memory.append(relay.process.peak_memory_mb())
        bench.note(", ".join(f"{side}: {acknowledged[side][-1]:,.0f} acknowledged/s, {settled[side][-1]:,.0f} settled/s"
                             for side in sides))
    with bench.relay("waiting", healthy(bench.nginx, FAN_OUT) + sides["waiting"]) as relay:
        with idle_connections(IDLE_CONNECTIONS):
            bench.deliver("waiting")
            crowded = relay.process.peak_memory_mb()
    still = f"{count:,} waiting for a dead receiver"
    return [
        Row("P7", f"acknowledged, {still}", "/s", acknowledged["waiting"], "≥ 0.9", "none waiting",
            acknowledged["nothing_waiting"]),
        Row("P7", f"settled, fan-out {FAN_OUT}, {still}", "/s", settled["waiting"], "≥ 0.9", "none waiting",
            settled["nothing_waiting"]),
        Row("P7", f"the daemon's peak memory, {still}", "MB", memory, "≤ 120"),
        Row("P7", f"the same with {IDLE_CONNECTIONS:,} idle connections", "MB", [crowded], "≤ 200")]


def p8(bench: Bench) -> list[Row]:
    """Rounds of P2 on one database for ten minutes, with a snapshot held open from the start, and without.

    Rounds, for a load without end would build a backlog of its own; what a held snapshot keeps, dead rows in the queue,
    grows from round to round."""
    seconds = HELD_QUICK_S if bench.is_quick else HELD_S
    rounds = {held: sustained(bench, held, seconds) for held in (False, True)}
    fifth = max(1, len(rounds[True]) // 5)
    first, last = rounds[True][:fifth], rounds[True][-fifth:]
    pairs = min(map(len, rounds.values()))
    what = f"settled, fan-out {FAN_OUT}, {seconds / 60:g} min with a snapshot held open"
    note = f"{len(rounds[True])} rounds with, {len(rounds[False])} without"
    return [Row("P8", what, "/s", rounds[True][:pairs], "≥ 0.8", "without a snapshot", rounds[False][:pairs], [note]),
            Row("P8", "its last fifth", "/s", [statistics.median(last)], "≥ 0.8", "its first fifth",
                [statistics.median(first)])]


def sustained(bench: Bench, is_held: bool, seconds: float) -> list[float]:
    database = bench.cluster.fresh_database("sustained")
    per_second: list[float] = []
    with bench.relay(database, healthy(bench.nginx, FAN_OUT)), bench.cluster.session(database) as snapshot:
        if is_held:
            snapshot.ask("BEGIN ISOLATION LEVEL REPEATABLE READ")
            snapshot.ask("SELECT count(*) FROM daemons")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            per_second.append(bench.deliver(database).per_second)
        reported = "with a snapshot" if is_held else "without one"
        bench.note(f"{reported}: {statistics.median(per_second):,.0f}/s, first {per_second[0]:,.0f}, "
                   f"last {per_second[-1]:,.0f}")
    return per_second
