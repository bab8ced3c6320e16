"""PostgreSQL away for minutes under a source that spools. What was answered 200 meanwhile is on a disk alone: it must
be in the ledger once when the database is back, and nothing may be left."""

import asyncio
import json
import pathlib
import subprocess
import time

import faults
from bed import Bed, Plan
from daemon import Daemon
from database import Ballast
from processes import BenchError
from webhooks import Histories

# Of each daemon's disk.
SPOOL_MB = 768
# Webhooks that are recorded, and delivered, in a second at least, on a machine that does other things as well.
RECORDED_PER_SECOND = 50
# How long a daemon takes to find that its disk has room again (Limits.spoolAdoptionInterval), and a new start.
ROOM_S = 180


class AnyOrder(Histories):
    """Those that come to the same in every order: of two spools each is recorded in its own."""

    def __init__(self, seed: str):
        super().__init__(seed)
        del self.shapes[self.two_logins]


PLAN = Plan(seconds=600, daemons=2, per_second=60, source="spool = true", unsettled_max=20_000, histories=AnyOrder)


def directory(daemon: Daemon) -> pathlib.Path:
    return daemon.state / "spool"


async def give_disks(bed: Bed) -> None:
    """Each daemon's spool is a file system of its own; it goes with the machine's other files."""
    for daemon in bed.daemons:
        directory(daemon).mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SPOOL_MB}m", "tmpfs", str(directory(daemon))], check=True)
        bed.mounts.append(directory(daemon))


async def spool(bed: Bed) -> None:
    """PostgreSQL away for ten minutes under a source that spools: daemons killed, the spool's disk full"""
    async with bed.load():
        await bed.rest(1, 3)
        with bed.breaking("PostgreSQL away"):
            await asyncio.to_thread(bed.current.kill)
            deadline = time.monotonic() + bed.seconds
            while time.monotonic() < deadline:
                await bed.rest(0.5, 10)
                await bed.rng.choice([faults.kill_daemon, faults.kill_daemon, fill_spool])(bed)
            spooled = len(bed.sender.acknowledged)
            await asyncio.to_thread(bed.current.start_again)
        bed.tried["acknowledged until PostgreSQL was back"] += spooled
    patience_s = 180 + len(bed.sender.acknowledged) / RECORDED_PER_SECOND
    await recorded(bed, patience_s)
    await bed.drained(patience_s)


async def fill_spool(bed: Bed) -> None:
    """Its webhooks are refused meanwhile, and sent again by the source."""
    daemon = bed.rng.choice(bed.daemons)
    ballast = Ballast(directory(daemon))
    bed.tried["no room on a spool's disk"] += 1
    await asyncio.to_thread(ballast.fill)
    await bed.rest(1, 4)
    ballast.empty()
    await daemon.ready(ROOM_S)


async def recorded(bed: Bed, patience_s: float) -> None:
    """Waits until no webhook is in a spool."""
    deadline = time.monotonic() + patience_s
    for daemon in bed.daemons:
        while waiting := await asyncio.to_thread(left, daemon):
            if time.monotonic() > deadline:
                bed.findings.add("webhooks left in the spool", f"{daemon.name}: {len(waiting)}, {waiting[0]}")
                return
            await asyncio.sleep(0.5)


def left(daemon: Daemon) -> list[str]:
    """Files that wait in a daemon's spool, the damaged ones among them, as the program says."""
    done = subprocess.run(
        [str(daemon.binary), "spool", "--json", "--config", str(daemon.file)], capture_output=True, text=True,
        check=False, env=daemon.environment)
    if done.returncode != 0:
        raise BenchError(f"posthouse spool: {done.stderr.strip()[-300:]}")
    answer = json.loads(done.stdout)
    return [file["file"] for file in answer["spool"]] + answer["damaged"]
