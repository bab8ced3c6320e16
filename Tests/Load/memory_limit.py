"""A limit of PostgreSQL's memory, with its part of the kernel's page cache: so a machine of any size measures what a
database of twice the memory costs."""

import contextlib
import dataclasses
import os
import pathlib

from cluster import Cluster
from processes import BenchError

# shared_buffers as initdb leaves them, some tens of connections, and what the kernel keeps for them.
LEAST_BYTES = 400_000_000


@dataclasses.dataclass(frozen=True)
class Kind:
    """Of control groups. Machines have one of them, or both with the memory controller in the first version's."""

    file_system: str
    # What a mount of it is recognised by, and what its lines in /proc/self/cgroup begin with.
    option: str
    own: str
    limit: str
    unlimited: str
    # What keeps PostgreSQL's own memory from being swapped out to make place for pages of files.
    swap: str


KINDS = [Kind("cgroup2", "", "0::", "memory.max", "max", "memory.swap.max"),
         Kind("cgroup", "memory", "memory:", "memory.limit_in_bytes", "-1", "memory.swappiness")]


class MemoryLimit:
    """A control group with PostgreSQL's processes in it, inside its `with`; unlimited at first. A cached page stays
    with the group that it was first used in, so what is to be limited is done in here from the start."""

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.kind, self.groups = next(found for found in groups() if has_memory(*found))
        lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line for line in lines if self.kind.own in line)
        self.before = self.groups / own.split(":", 2)[2].removeprefix("/")
        self.group = self.groups / f"posthouse-bench.{os.getpid()}"

    def __enter__(self) -> "MemoryLimit":
        # Those of runs that were killed; one that is in use cannot be removed.
        for left in self.groups.glob("posthouse-bench.*"):
            with contextlib.suppress(OSError):
                left.rmdir()
        try:
            self.group.mkdir()
        except OSError as error:
            raise BenchError(f"no control group can be made: {error}") from None
        # What it starts from now on is in its group.
        self.move(self.cluster.server_processes(), self.group)
        return self

    def __exit__(self, *_: object) -> None:
        self.set(None)
        self.move([int(line) for line in (self.group / "cgroup.procs").read_text().split()], self.before)
        with contextlib.suppress(OSError):
            self.group.rmdir()

    def move(self, processes: list[int], group: pathlib.Path) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(str(process))

    def set(self, limit: int | None) -> None:
        """Bytes; the kernel drops what is above before this returns. None: as much as the machine has."""
        swap = self.group / self.kind.swap
        if limit and swap.exists():
            swap.write_text("0")
        (self.group / self.kind.limit).write_text(self.kind.unlimited if limit is None else str(limit))


def groups() -> list[tuple[Kind, pathlib.Path]]:
    """Where control groups are mounted."""
    found = []
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, directory, file_system, options, *_ = line.split()
        found += [(kind, pathlib.Path(directory)) for kind in KINDS
                  if kind.file_system == file_system and (not kind.option or kind.option in options.split(","))]
    return found


def has_memory(kind: Kind, mounted: pathlib.Path) -> bool:
    """Whether memory is limited by these groups."""
    control = mounted / "cgroup.subtree_control"
    return bool(kind.option) or "memory" in control.read_text().split()


def why_none() -> str | None:
    """Why PostgreSQL's memory cannot be limited here."""
    if os.geteuid() != 0:
        return "that takes root"
    mounted = next((directory for kind, directory in groups() if has_memory(kind, directory)), None)
    if mounted is None:
        return "no control groups with a memory controller are mounted"
    if not os.access(mounted, os.W_OK) or os.statvfs(mounted).f_flag & os.ST_RDONLY:
        return f"{mounted} cannot be written to"
    return None
