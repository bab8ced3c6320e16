"""Dead letters while daemons die: what a receiver refuses for good is given up once, and who asked hears of it once."""

import asyncio
import contextlib
import time

import faults
from bed import Bed, Plan
from processes import Process

PLAN = Plan(daemons=2, integration={"permanent": "[400]", "events": '["*", "posthouse.integration.*"]'})
REFUSED_SHARE, GONE_SHARE = 0.15, 0.005


async def dead_letters(bed: Bed) -> None:
    """receivers that refuse for good and say that they are gone, daemons killed and frozen meanwhile"""
    for receiver in bed.receivers:
        receiver.is_notified = True
    for receiver in bed.receivers[1:]:
        receiver.refused_share = REFUSED_SHARE
    gone = bed.receivers[2]
    gone.mood, gone.share = "gone", GONE_SHARE
    resuming = asyncio.create_task(keep_resuming(bed, gone.name))
    try:
        async with bed.load():
            deadline = time.monotonic() + bed.seconds
            while time.monotonic() < deadline:
                await bed.rest(0.3, 2)
                await bed.rng.choice([faults.kill_daemon, faults.kill_daemon, faults.freeze_briefly])(bed)
        await gone.behave()
        # One of the last answers may pause it after any one resume: it is resumed until all is delivered.
        await bed.drained()
    finally:
        resuming.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await resuming
    bed.tried["410"] += gone.behaved["gone"]


async def keep_resuming(bed: Bed, name: str) -> None:
    """A 410 pauses an integration; an operator looks after it."""
    while True:
        await asyncio.sleep(1)
        await resume(bed, name)


async def resume(bed: Bed, name: str) -> None:
    process = Process(bed.scratch, "resume", [str(bed.binary), "resume", name, "--config", str(bed.daemon.file)])
    try:
        while process.is_running():
            await asyncio.sleep(0.05)
    finally:
        process.stop()
