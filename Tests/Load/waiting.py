"""A database in which so many deliveries wait for a receiver that is dead, as an outage leaves them."""

from bench_context import Bench
from clones import TEMPLATE, Template
from relay import Integration

# Nothing listens there: connections are refused.
DEAD_URL = "http://127.0.0.1:9505/"


def dead(events: str) -> Integration:
    return Integration("dead", DEAD_URL, {"events": events})


def fill(bench: Bench, database: str, count: int) -> None:
    """The daemon records one real event for the dead receiver; what it wrote is cloned, without the attempt."""
    bench.cluster.fresh_database(database)
    template = Template(bench, database, [dead('["*"]')])
    with bench.cluster.session(database) as session:
        # Some are overdue and some wait for their next attempt: six hours of either.
        template.clone([session], TEMPLATE + 1, count, without="attempts", changed={"deliveries": {
            "attempts": "1", "leased_by": "NULL", "blocked": "false",
            "due_at": "now() + (random() - 0.5) * interval '12 hours'", "created_at": "now() - interval '12 hours'"}})
        # What autovacuum would have done during an outage of hours.
        session.ask("VACUUM (ANALYZE)")
    bench.cluster.checkpoint()
