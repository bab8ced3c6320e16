"""Rows by the million, each as the daemon writes them, whatever the schema has become: SQL clones those of one real
event, with keys of their own."""

from cluster import Session


def clone_events(session: Session, first: int, count: int, attempts: int) -> dict[str, int]:
    """`count` events, each of a purchase and a holder of its own, with a message and so many accepted attempts; their
    names are numbered from `first` on. Returns what their ids are counted from, by sequence."""
    base = {name: int(session.number(f"SELECT setval('{name}', nextval('{name}') + {count}) - {count}"))
            for name in ("event_ids", "message_ids", "delivery_ids")}
    event, message = f"{base['event_ids']} + n", f"{base['message_ids']} + n"
    name = f"'waiting' || (n + {first})"
    purchase, holder = uuid_of("purchase", first), f"'user:waiting' || (n + {first})"
    of_purchase = {"purchase": purchase, "store_transaction_id": name}
    clone(session, "identities", count, {"key": uuid_of("event", first), "event": event})
    clone(session, "events", count, of_purchase | {
        "id": event, "key": uuid_of("event", first), "vendor_event_id": name, "holder": holder})
    clone(session, "purchases", count, {"id": purchase, "key": name})
    clone(session, "transactions", count, of_purchase)
    clone(session, "entitlements", count, {"holder": holder, "purchase": purchase, "event": event})
    clone(session, "messages", count, {"id": message, "key": uuid_of("message", first), "event": event})
    for _ in range(attempts):
        clone(session, "attempts", count, {"message": message})
    return base


def uuid_of(what: str, first: int) -> str:
    return f"md5('{what}' || (n + {first}))::uuid"


def clone(session: Session, table: str, count: int, changed: dict[str, str]) -> None:
    """`count` copies of one row of the table, with SQL of `n` (1, 2, …) in the columns that are `changed`."""
    columns = session.ask(
        "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attgenerated = '' "
        f"AND attrelid = '{table}'::regclass ORDER BY attnum").splitlines()
    values = [changed.get(column, f"t.{column}") for column in columns]
    session.ask(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
                f"FROM (SELECT * FROM {table} LIMIT 1) t, generate_series(1, {count}) n")
