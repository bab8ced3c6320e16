"""The wall clock set forward and back under what runs: the daemons', or PostgreSQL's, by libfaketime. Their monotonic
clocks go on as they are, as when an operator or NTP sets the time."""

import asyncio
import pathlib

from bed import Bed
from processes import Scratch

LIBRARY = "/usr/lib/*/faketime/libfaketime.so.1"
# More than a lease, so that it ends early or seems to last long. Not hours: what is due by a clock that was set back is
# due when that clock says so, and the scenario is bounded.
JUMP_S = (16, 30)


def library() -> str | None:
    return next((str(path) for path in pathlib.Path("/").glob(LIBRARY[1:])), None)


def why_not(_: Scratch, __: pathlib.Path) -> str | None:
    return None if library() else "there is no libfaketime (Debian's package faketime)"


def environment(file: pathlib.Path) -> dict[str, str]:
    file.write_text("+0\n")
    file.chmod(0o644)
    return {"LD_PRELOAD": library(), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def postgres_environment(scratch: Scratch) -> dict[str, str]:
    return environment(scratch.path / "clock-of-postgresql")


def daemon_environment(bed: Bed) -> dict[str, str]:
    return environment(bed.scratch.path / "clock-of-daemons")


async def clock(bed: Bed) -> None:
    """the clock of PostgreSQL and of the daemons set forward and back"""
    files = {"PostgreSQL's": bed.scratch.path / "clock-of-postgresql",
             "the daemons'": bed.scratch.path / "clock-of-daemons"}
    async with bed.load():
        await check(bed)
        for _ in bed.times(5):
            whose = bed.rng.choice(list(files))
            seconds = round(bed.rng.uniform(*JUMP_S)) * bed.rng.choice([1, -1])
            with bed.breaking(f"{whose} clock set {'forward' if seconds > 0 else 'back'}"):
                files[whose].write_text(f"{seconds:+d}\n")
                await bed.rest(2, 4)
                files[whose].write_text("+0\n")
                await bed.rest(0.5, 1.5)


async def check(bed: Bed) -> None:
    """That the clock obeys: a scenario that sets no clock would pass for nothing."""
    file = bed.scratch.path / "clock-of-postgresql"
    before = float(await bed.current.ask("SELECT extract(epoch FROM clock_timestamp())"))
    file.write_text("+1000\n")
    after = float(await bed.current.ask("SELECT extract(epoch FROM clock_timestamp())"))
    file.write_text("+0\n")
    if after - before < 900:
        bed.findings.add("libfaketime does not reach PostgreSQL's clock", after - before)
    await asyncio.sleep(0.1)
