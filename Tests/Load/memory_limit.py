"""A limit of PostgreSQL's memory, with its part of the kernel's page cache: so a machine of any size measures what a
database of twice the memory costs."""

import contextlib
import os
import pathlib

from cluster import Cluster
from processes import BenchError

# shared_buffers as initdb leaves them, some tens of connections, and what the kernel keeps for them.
LEAST_BYTES = 400_000_000


class MemoryLimit:
    """A control group (cgroup v2) with PostgreSQL's processes in it, inside its `with`; unlimited at first. A cached
    page stays with the group that it was first used in, so what is to be limited is done in here from the start."""

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.groups = groups()
        own = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        self.before = self.groups / next(line for line in own if line.startswith("0::")).removeprefix("0::/")
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
        (self.group / "memory.max").write_text("max" if limit is None else str(limit))
        # Else PostgreSQL's own memory would be swapped out to make place for pages of files.
        if (self.group / "memory.swap.max").exists():
            (self.group / "memory.swap.max").write_text("max" if limit is None else "0")


def groups() -> pathlib.Path | None:
    """Where cgroup v2 is mounted."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, directory, kind, *_ = line.split()
        if kind == "cgroup2":
            return pathlib.Path(directory)
    return None


def why_none() -> str | None:
    """Why PostgreSQL's memory cannot be limited here."""
    mounted = groups()
    if os.geteuid() != 0:
        return "that takes root"
    if mounted is None:
        return "cgroup v2 is not mounted"
    if "memory" not in (mounted / "cgroup.subtree_control").read_text().split():
        return f"the groups of cgroup v2 at {mounted} have no memory controller"
    if not os.access(mounted, os.W_OK) or os.statvfs(mounted).f_flag & os.ST_RDONLY:
        return f"{mounted} cannot be written to"
    return None
