"""How much processor time the daemon and PostgreSQL have used: on a machine that the load shares, the rate alone says
less of what an event costs than the time does."""

import dataclasses
import os
import pathlib

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class CPUTime:
    """Seconds, of user and kernel together."""

    daemon: float
    postgresql: float

    @staticmethod
    def now(daemon: int, postmaster: int) -> "CPUTime":
        """`daemon` and `postmaster` are process ids. A PostgreSQL process that has ended counts with its parent's."""
        backends = [int(fields[0]) for fields in map(stat, processes()) if fields and int(fields[3]) == postmaster]
        ended = stat(postmaster)
        return CPUTime(used(daemon), used(postmaster) + sum(map(used, backends))
                       + (int(ended[15]) + int(ended[16])) / TICKS_PER_SECOND)

    def __sub__(self, other: "CPUTime") -> "CPUTime":
        return CPUTime(self.daemon - other.daemon, self.postgresql - other.postgresql)


def processes() -> list[int]:
    return [int(path.name) for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()]


def used(process: int) -> float:
    fields = stat(process)
    return (int(fields[13]) + int(fields[14])) / TICKS_PER_SECOND if fields else 0


def stat(process: int) -> list[str]:
    """The fields of proc(5)'s /proc/PID/stat from 0 on; none where the process has ended meanwhile."""
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    # The name, in parentheses, may hold blanks.
    return [str(process), ""] + text.rpartition(")")[2].split()
