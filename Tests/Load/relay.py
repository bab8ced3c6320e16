"""The daemon that is measured: the release binary, a configuration of its own, the cluster that all share."""

import base64
import dataclasses
import os
import pathlib
import time
import urllib.error
import urllib.request

from cluster import Cluster, Session
from processes import BenchError, Process, Scratch, wait_until
from traffic import Nginx, Sent

# How long nothing may be committed any more before a load counts as over.
STILL_S = 2
PORT = 9500
INGEST = f"http://127.0.0.1:{PORT}/ingest/purchasely"


@dataclasses.dataclass
class Integration:
    name: str
    url: str
    # TOML values by key, beside `events = ["*"]`: everything else has its default.
    settings: dict[str, str] = dataclasses.field(default_factory=dict)


def healthy(nginx: Nginx, count: int = 3, **settings: str) -> list[Integration]:
    """Integrations whose receiver is nginx."""
    return [Integration(f"receiver{number}", nginx.url(number), settings) for number in range(1, count + 1)]


class Secrets:
    """The source's and the integrations', the same for the daemon and for the peer."""

    def __init__(self, scratch: Scratch):
        self.source, self.integration = scratch.path / "source-secret", scratch.path / "integration-secret"
        self.source.write_text("load-secret\n")
        self.integration.write_text(f"whsec_{base64.b64encode(os.urandom(32)).decode()}\n")


class Relay:
    """Running inside its `with`."""

    def __init__(self, scratch: Scratch, cluster: Cluster, secrets: Secrets, binary: pathlib.Path, database: str,
                 integrations: list[Integration], source: str | None = None, extra: dict[str, str] | None = None):
        """`source`: TOML of another source than the usual one of Purchasely's. `extra`: more lines of the tables
        `database` and `source`, and of whole `tables`."""
        extra = extra or {}
        self.scratch, self.cluster, self.binary, self.database = scratch, cluster, binary, database
        self.configuration = scratch.path / "posthouse.toml"
        tables = [f"""
            [server]
            listen = "127.0.0.1:{PORT}"
            [database]
            url = "{cluster.url(database)}"
            {extra.get("database", "").format(url=cluster.url(database))}
            {extra.get("tables", "")}
            [[source]]""", source or f"""
            name = "purchasely"
            kind = "purchasely"
            secret = {{ file = "{secrets.source}" }}""", extra.get("source", "")]
        for integration in integrations:
            settings = {"events": '["*"]', "allow_private": "true"} | integration.settings
            tables.append(f"""
            [[integration]]
            name = "{integration.name}"
            url = "{integration.url}"
            secret = {{ file = "{secrets.integration}" }}""")
            tables += [f"            {key} = {value}" for key, value in settings.items()]
        self.configuration.write_text("\n".join(tables) + "\n")

    def __enter__(self) -> "Relay":
        arguments = [str(self.binary), "serve", "--config", str(self.configuration)]
        state = self.scratch.path / "posthouse.state"
        state.mkdir(exist_ok=True)
        # What a relay before it served: many begin with an empty database, on purpose.
        (state / "serving").unlink(missing_ok=True)
        # As the unit has it.
        self.process = Process(self.scratch, "posthouse", arguments,
                               environment={"SWIFT_BACKTRACE": "enable=no", "STATE_DIRECTORY": str(state),
                                            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=128"})
        wait_until("the daemon's start", self.is_ready, 60)
        return self

    def is_ready(self) -> bool:
        if not self.process.is_running():
            raise BenchError(f"posthouse serve ended at its start:\n{self.process.last_words()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        # Its entries are of no use any more, and in a long run they are many.
        self.process.log.unlink(missing_ok=True)


@dataclasses.dataclass
class Mark:
    """Where a database stood before a run."""

    event: float
    time: float

    @staticmethod
    def of(session: Session) -> "Mark":
        return Mark(*session.row("SELECT coalesce(max(id), 0), extract(epoch FROM clock_timestamp()) FROM events"))


@dataclasses.dataclass
class Settled:
    """What a run came to, by the database's own times."""

    events: int
    deliveries: int
    # From the first event's transaction to the last settling's.
    seconds: float
    sent: Sent

    @property
    def per_second(self) -> float:
        return self.deliveries / self.seconds


def settled_since(mark: Mark, session: Session, nginx: Nginx, received_before: int, sent: Sent,
                  patience_s: float) -> Settled:
    """Waits until nginx has got what the healthy receivers are owed and the daemon has settled it, and counts."""
    healthy_ids = session.ask("SELECT coalesce(string_agg(id::text, ','), '0') FROM integrations "
                              "WHERE name LIKE 'receiver%'")
    newer = f"FROM events WHERE id > {mark.event:.0f}"
    events = all_delivered(
        session, nginx, received_before, healthy_ids.count(",") + 1, patience_s, f"SELECT count(*) {newer}",
        f"SELECT NOT EXISTS (SELECT FROM deliveries WHERE integration IN ({healthy_ids}))")
    owed = events * (healthy_ids.count(",") + 1)
    first = session.number(f"SELECT extract(epoch FROM min(received_at)) {newer}")
    count, last = session.row(
        "SELECT count(*), extract(epoch FROM max(at)) FROM attempts WHERE outcome = 'accepted' "
        f"AND at >= to_timestamp({mark.time}) AND integration IN ({healthy_ids})")
    # Each once: fewer would be a loss, more a double delivery, and a figure with either in it would be none.
    received = nginx.received() - received_before
    if count != owed or received != owed:
        raise BenchError(f"{owed} deliveries were owed, nginx received {received}, {count:.0f} are settled as accepted")
    return Settled(events, int(count), last - first, sent)


def all_delivered(session: Session, nginx: Nginx, received_before: int, fan_out: int, patience_s: float, events: str,
                  is_drained: str) -> int:
    """Waits until every event that was committed is delivered and settled; returns how many there are. `events` and
    `is_drained` are SQL. nginx is asked first: polling the tables would take from what is measured."""
    while True:
        # Those that were under way when the load ended may be committed after this count: then once more. wrk does not
        # wait for their answers, and a commit on a busy disk may take a while.
        count = int(session.number(events))
        owed = count * fan_out
        wait_until(f"{owed} deliveries at nginx", lambda: nginx.received() - received_before >= owed, patience_s, 0.1)
        wait_until("an empty queue", lambda: session.ask(is_drained) == "t", patience_s, 0.1)
        time.sleep(STILL_S)
        if int(session.number(events)) == count:
            return count
