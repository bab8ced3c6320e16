"""PostgreSQL's wall clock set forward and back under what runs, by libfaketime. It is the clock that counts: the daemon
orders nothing by its own, and a Swift program does not see its arguments under libfaketime. The monotonic clock goes on
as it is, as when an operator or NTP sets the time."""

import pathlib

from bed import Bed
from processes import Scratch

LIBRARY = "usr/lib/*/faketime/libfaketime.so.1"
FILE = "clock-of-postgresql"
# More than a lease, so that it ends early or seems to last long. Not hours: what is due by a clock that was set back is
# due when that clock says so, and the scenario is bounded.
JUMP_S = (16, 30)


def library() -> str | None:
    return next((str(path) for path in pathlib.Path("/").glob(LIBRARY)), None)


def why_not(_: Scratch, __: pathlib.Path) -> str | None:
    return None if library() else "there is no libfaketime (Debian's package faketime)"


def postgres_environment(scratch: Scratch) -> dict[str, str]:
    file = scratch.path / FILE
    set_by(file, 0)
    file.chmod(0o644)
    return {"LD_PRELOAD": library() or "", "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def set_by(file: pathlib.Path, seconds: int) -> None:
    # Replaced, not written over: a reader would see it empty, and take that for no shift.
    new = file.with_suffix(".new")
    new.write_text(f"{seconds:+d}\n")
    new.chmod(0o644)
    new.rename(file)


async def clock(bed: Bed) -> None:
    """the database's clock set forward and back under load"""
    file = bed.scratch.path / FILE
    async with bed.load():
        await check(bed, file)
        for _ in bed.times(5):
            seconds = round(bed.rng.uniform(*JUMP_S)) * bed.rng.choice([1, -1])
            with bed.breaking(f"the clock set {'forward' if seconds > 0 else 'back'}"):
                set_by(file, seconds)
                await bed.rest(2, 4)
                set_by(file, 0)
                await bed.rest(0.5, 1.5)


async def check(bed: Bed, file: pathlib.Path) -> None:
    """That the clock obeys: a scenario that sets no clock would pass for nothing."""
    times = []
    for seconds in (0, 1000, 0):
        set_by(file, seconds)
        times.append(float(await bed.current.ask("SELECT extract(epoch FROM clock_timestamp())")))
    if times[1] - times[0] < 900:
        bed.findings.add("libfaketime does not reach PostgreSQL's clock", times)
