"""A database in which so many deliveries wait for a receiver that is dead, as an outage leaves them."""

from bench_context import Bench
from cluster import Session
from relay import Integration

# Nothing listens there: connections are refused.
DEAD_URL = "http://127.0.0.1:9505/"


def dead(events: str) -> Integration:
    return Integration("dead", DEAD_URL, {"events": events})


def fill(bench: Bench, database: str, count: int) -> None:
    """The daemon records one real event for the dead receiver, and SQL clones the rows that it wrote, each with keys of
    its own: so they are as the daemon writes them, whatever the schema has become."""
    bench.cluster.fresh_database(database)
    with bench.relay(database, [dead('["*"]')]):
        bench.send(1, connections=1, pause_ms=400)
    with bench.cluster.session(database) as session:
        base = {name: session.number(f"SELECT setval('{name}', nextval('{name}') + {count}) - {count}")
                for name in ("event_ids", "message_ids", "delivery_ids")}
        event, message = f"{base['event_ids']:.0f} + n", f"{base['message_ids']:.0f} + n"
        key, purchase, holder = uuid_of("event"), uuid_of("purchase"), "'user:waiting' || n"
        of_purchase = {"purchase": purchase, "store_transaction_id": "'waiting' || n"}
        clone(session, "identities", count, {"key": key, "event": event})
        clone(session, "events", count, of_purchase | {
            "id": event, "key": key, "vendor_event_id": "'waiting' || n", "holder": holder})
        clone(session, "purchases", count, {"id": purchase, "key": "'waiting' || n"})
        clone(session, "transactions", count, of_purchase)
        clone(session, "entitlements", count, {"holder": holder, "purchase": purchase, "event": event})
        clone(session, "messages", count, {"id": message, "key": uuid_of("message"), "event": event})
        # Some are overdue and some wait for their next attempt: six hours of either.
        clone(session, "deliveries", count, {
            "id": f"{base['delivery_ids']:.0f} + n", "message": message, "purchase": purchase, "attempts": "1",
            "leased_by": "NULL", "blocked": "false", "due_at": "now() + (random() - 0.5) * interval '12 hours'",
            "created_at": "now() - interval '12 hours'"})
        # What autovacuum would have done during an outage of hours.
        session.ask("VACUUM (ANALYZE)")
    bench.cluster.checkpoint()


def uuid_of(what: str) -> str:
    return f"md5('{what}' || n)::uuid"


def clone(session: Session, table: str, count: int, changed: dict[str, str]) -> None:
    """`count` copies of one row of the table, with SQL of `n` (1, 2, …) in the columns that are `changed`."""
    columns = session.ask(
        "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attgenerated = '' "
        f"AND attrelid = '{table}'::regclass ORDER BY attnum").splitlines()
    values = [changed.get(column, f"t.{column}") for column in columns]
    session.ask(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
                f"FROM (SELECT * FROM {table} LIMIT 1) t, generate_series(1, {count}) n")
