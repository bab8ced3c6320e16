"""PostgreSQL's write-ahead log: how much was written, and in which state it was."""

import dataclasses

from cluster import Session

# Just after a checkpoint, each page that is touched for the first time is written to the log as a whole.
AFTER_CHECKPOINT, STEADY = "after a checkpoint", "steady"


@dataclasses.dataclass
class Log:
    """Where the log stands."""

    bytes: float
    # Pages written as a whole, by its statistics, which may be a second late.
    page_images: float
    # Where the last checkpoint began.
    checkpoint: str

    @staticmethod
    def now(session: Session) -> "Log":
        return Log(session.number("SELECT pg_current_wal_lsn() - '0/0'"),
                   session.number("SELECT wal_fpi FROM pg_stat_wal"),
                   session.ask("SELECT redo_lsn FROM pg_control_checkpoint()"))
