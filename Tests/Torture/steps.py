"""Steps of the way at which a debug build ends by itself (POSTHOUSE_FAILPOINT, Sources/Vocabulary/Failpoint.swift)."""

import asyncio
import pathlib
import signal

from bed import Bed
from database import DATABASE
from processes import BenchError, Process, Scratch

VARIABLE = "POSTHOUSE_FAILPOINT"
# Each with the latest passage that a few seconds of load surely reach.
STEPS = {
    "webhook-read": 200, "record-before-commit": 40, "record-after-commit": 40, "webhook-answered": 40,
    "delivery-before-request": 200, "delivery-after-answer": 200, "settle-before-commit": 40,
    "settle-after-commit": 40, "claim-before-commit": 3, "claim-after-commit": 3, "lease-renewal": 1,
    "reload-adopting": 1}
MOVE_STEPS = ("move-before-commit", "move-after-commit")
REACHED_S = 120


def why_no_failpoints(_: Scratch, binary: pathlib.Path) -> str | None:
    if VARIABLE.encode() in binary.read_bytes():
        return None
    return "this binary has no failpoints: it is a release build"


async def failpoints(bed: Bed) -> None:
    """kill -9 at each named step of the way (debug build)"""
    # Something must be retried, or nothing would be claimed.
    bed.receivers[1].mood, bed.receivers[1].share = "error", 0.2
    order = list(STEPS)
    bed.rng.shuffle(order)
    async with bed.load():
        for step in order:
            await die_at(bed, step, bed.rng.randint(1, STEPS[step]))
        await bed.receivers[1].behave()


async def die_at(bed: Bed, step: str, passage: int) -> None:
    daemon = bed.daemon
    await daemon.stop()
    with bed.breaking(f"kill -9 at {step}") as fault:
        daemon.start({VARIABLE: f"{step}:{passage}:kill"})
        if step == "reload-adopting":
            await daemon.ready()
            daemon.signal(signal.SIGHUP)
        code = await daemon.ended(REACHED_S)
        if code != -signal.SIGKILL:
            bed.findings.add(f"{step} was not reached", f"passage {passage}, exit code {code}")
            if code is None:
                daemon.kill()
        await bed.note_in_flight(fault)
        daemon.start()
        await daemon.ready()


async def use_private_cluster(bed: Bed) -> None:
    directory = bed.scratch.path / "private"
    directory.mkdir()
    directory.chmod(0o711)
    bed.daemon.settings.embedded = directory / "cluster"
    bed.daemon.settings.database_url = ""
    bed.daemon.write()


async def migrate(bed: Bed) -> None:
    """the private cluster moved to a database, cut short before and after its commit (debug build)"""
    async with bed.load():
        # Something must be left to do.
        await bed.receivers[2].refuse()
        await asyncio.sleep(bed.seconds)
    if await bed.daemon.stop() != 0:
        bed.findings.add("the daemon with a private cluster did not end in order")
    bed.daemon.settings.database_url = bed.server.url(DATABASE)
    bed.daemon.write()
    order = list(MOVE_STEPS)
    for step in order if bed.rng.random() < 0.7 else order[1:]:
        with bed.breaking(f"kill -9 at {step}"):
            code = await move(bed, {VARIABLE: f"{step}:1:kill"})
            if code != -signal.SIGKILL:
                bed.findings.add(f"{step} was not reached", f"exit code {code}")
    if (code := await move(bed)) != 0:
        bed.findings.add("the ledger was not moved", f"exit code {code}")
    for receiver in bed.receivers:
        await receiver.behave()
    bed.daemon.start()
    await bed.daemon.ready()


async def move(bed: Bed, environment: dict[str, str] | None = None) -> int:
    process = Process(bed.scratch, "migrate", [
        str(bed.binary), "migrate", "--from-embedded", "--config", str(bed.daemon.file)], environment=environment)
    try:
        async with asyncio.timeout(180):
            while process.is_running():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise BenchError(f"migrate did not end: {process.last_words()}") from None
    code = process.child.returncode
    bed.notes.append(f"migrate: exit code {code}: {process.last_words(1)}")
    process.stop()
    return code
