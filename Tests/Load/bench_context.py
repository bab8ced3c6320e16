"""What every goal is given: the machine's pieces, how long to measure and how often."""

import dataclasses
import pathlib

from cluster import Cluster
from processes import Scratch
from relay import INGEST, Integration, Mark, Relay, Secrets, Settled, settled_since
from traffic import Nginx, OneRow, Sent, send


@dataclasses.dataclass
class Bench:
    scratch: Scratch
    cluster: Cluster
    nginx: Nginx
    one_row: OneRow
    secrets: Secrets
    binary: pathlib.Path
    python: pathlib.Path
    is_quick: bool
    repetitions: int
    # Length of one measurement's load.
    seconds: int
    # Lines of the relay's configuration (`Relay`).
    extra: dict[str, str] = dataclasses.field(default_factory=dict)

    def relay(self, database: str, integrations: list[Integration], source: str | None = None) -> Relay:
        return Relay(self.scratch, self.cluster, self.secrets, self.binary, database, integrations, source,
                     self.extra)

    def send(self, seconds: int | None = None, **options: int | str) -> Sent:
        return send(INGEST, self.secrets.source, seconds or self.seconds, **options)

    def deliver(self, database: str, seconds: int | None = None, **options: int | str) -> Settled:
        """Load for so long, then as long as it takes until everything is settled."""
        seconds = seconds or self.seconds
        # With receivers fewer are taken in a second; each thread's own.
        options = {"prepared": 5_000 * seconds} | options
        with self.cluster.session(database) as session:
            mark, received = Mark.of(session), self.nginx.received()
            sent = self.send(seconds, **options)
            return settled_since(mark, session, self.nginx, received, sent, patience_s=60 + 20 * seconds)

    def program(self, name: str) -> pathlib.Path:
        """A small program beside this file, for another process."""
        return pathlib.Path(__file__).resolve().parent / name

    def note(self, text: str) -> None:
        print(f"  {text}", flush=True)
