"""P2, P3, P6 and P10: from the webhook in to its deliveries settled."""

import peer
from bench_context import Bench
from relay import healthy
from report import Row

DATABASE = "delivery"
FAN_OUT = 3
# Purchases that come again are what ordering costs something for.
EVENTS_OF_A_PURCHASE = 4


def p2_p3(bench: Bench, wanted: set[str]) -> list[Row]:
    """The daemon, the peer and nginx alone, in turn: three figures of one run make both ratios."""
    ours, theirs, plain, memory, events = [], [], [], [], []
    setting = peer.best_setting(bench, FAN_OUT) if "P2" in wanted else None
    for _ in range(bench.repetitions):
        with bench.relay(bench.cluster.fresh_database(DATABASE), healthy(bench.nginx, FAN_OUT)) as relay:
            settled = bench.deliver(DATABASE)
            memory.append(relay.process.peak_memory_mb())
        ours.append(settled.per_second)
        events.append(settled.events / settled.seconds)
        reported = f"settled {ours[-1]:,.0f}/s"
        if "P2" in wanted:
            theirs.append(peer.settled_per_second(bench, FAN_OUT, setting))
            reported += f", the peer {theirs[-1]:,.0f}/s"
        if "P3" in wanted:
            plain.append(bench.nginx.alone(min(bench.seconds, 5)))
            reported += f", nginx alone {plain[-1]:,.0f}/s"
        bench.note(reported)
    rows = []
    if "P2" in wanted:
        rows.append(Row("P2", f"deliveries settled, fan-out {FAN_OUT}", "/s", ours, "≥ 10",
                        "FastAPI + pgqueuer + aiohttp", theirs,
                        notes=[f"{max(events):,.0f} events/s at most; the daemon's peak memory {max(memory):.0f} MB",
                               f"the peer's {setting}"]))
    if "P3" in wanted:
        rows.append(Row("P3", f"deliveries settled, fan-out {FAN_OUT}", "/s", ours, "≥ 0.2",
                        "nginx alone answering 204", plain))
    return rows


def p6(bench: Bench) -> list[Row]:
    """PostgreSQL counts: all that the daemon's role ran, BEGIN and COMMIT included, by all events it took."""
    bench.cluster.restart({"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.max": "10000"})
    per_event, notes = [], []
    try:
        for _ in range(bench.repetitions):
            database = bench.cluster.fresh_database(DATABASE)
            with bench.cluster.session("postgres") as session:
                session.ask("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
                with bench.relay(database, healthy(bench.nginx, FAN_OUT)):
                    session.ask("SELECT pg_stat_statements_reset()")
                    settled = bench.deliver(database)
                    counted = f"""FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
                        JOIN pg_database d ON d.oid = s.dbid
                        WHERE r.rolname = 'posthouse' AND d.datname = '{database}'"""
                    per_event.append(session.number(f"SELECT sum(calls) {counted}") / settled.events)
                    most = session.ask(
                        f"SELECT round(calls / {settled.events}.0, 3) || ' ' || "
                        f"left(regexp_replace(query, '\\s+', ' ', 'g'), 60) {counted} ORDER BY calls DESC LIMIT 6")
            notes = ["most often: " + line for line in most.splitlines()]
            bench.note(f"{per_event[-1]:.3f} statements an event")
    finally:
        bench.cluster.restart({})
    return [Row("P6", f"statements an event, fan-out {FAN_OUT}, under load", "", per_event, "≤ 0.5", notes=notes)]


def p10(bench: Bench) -> list[Row]:
    """Each purchase has several events close together, so that there is something to keep in order."""
    figures: dict[str, list[float]] = {"purchase": [], "none": []}
    for _ in range(bench.repetitions):
        for order, values in figures.items():
            integrations = healthy(bench.nginx, FAN_OUT, order=f'"{order}"')
            with bench.relay(bench.cluster.fresh_database(DATABASE), integrations):
                values.append(bench.deliver(DATABASE, purchase_events=EVENTS_OF_A_PURCHASE).per_second)
        bench.note(", ".join(f"order {order}: {values[-1]:,.0f}/s" for order, values in figures.items()))
    return [Row("P10", f"settled with order = \"purchase\", {EVENTS_OF_A_PURCHASE} events each", "/s",
                figures["purchase"], "≥ 0.8", "the same with order = \"none\"", figures["none"])]
