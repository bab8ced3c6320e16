"""The operators' commands under load, two daemons at work: none loses a message, sends one that nobody asked for, or
leaves anything of a person who was erased."""

import asyncio
import json
import time

from bed import Bed, Plan
from daemon import run_command
from oracle import MESSAGE_ID, Fault, Ledger
from processes import BenchError
from webhooks import History

# Seconds; so long a webhook waits for a lock (Limits.lockWait), which an erasure has on a machine that stands still.
LOCK_WAIT_S = 5
PLAN = Plan(daemons=2, only_200=True, time_over_s=LOCK_WAIT_S)
# A command looks through the whole ledger, or waits for what a daemon has leased.
COMMAND_S = 300


async def operators(bed: Bed) -> None:
    """pause, resume, replay, erase and discard under load, two daemons"""
    erased: list[History] = []
    bed.expect = lambda begun, ledger: forget(bed, erased, ledger)
    async with bed.load():
        deadline = time.monotonic() + bed.seconds
        await bed.rest(0.5, 1)
        # Side by side, each on its own: what one of them does is no other's.
        await asyncio.gather(
            discard(bed, deadline), replay(bed, deadline), erase(bed, erased, deadline))
    await command(bed, "replay", "--integration", bed.receivers[2].name, "--outcome", "dead")


async def command(bed: Bed, *arguments: str, ended: tuple[int, ...] = (0,)) -> dict:
    """What it says with --json; whatever keeps it from its end ends the scenario."""
    bed.tried[arguments[0]] += 1
    words = [str(bed.binary), *arguments, "--json", "--config", str(bed.rng.choice(bed.daemons).file)]
    try:
        code, out, said = await run_command(words, COMMAND_S)
    except TimeoutError:
        raise BenchError(f"posthouse {' '.join(arguments)} did not end within {COMMAND_S} s") from None
    if code not in ended:
        raise BenchError(f"posthouse {' '.join(arguments)}: {code}: {said[-300:]}")
    return json.loads(out)


async def discard(bed: Bed, deadline: float) -> None:
    """Of the third receiver, which is paused now and then; what was given up is replayed."""
    receiver = bed.receivers[2]
    while time.monotonic() < deadline:
        await command(bed, "pause", receiver.name)
        await bed.rest(0.2, 1.5)
        if bed.rng.random() < 0.7:
            # 1: some were still leased by a daemon.
            await command(bed, "discard", receiver.name, ended=(0, 1))
            receiver.given_up.update((await bed.current.ask(
                f"SELECT {MESSAGE_ID} FROM dead_letters d JOIN messages m ON m.id = d.message "
                "JOIN events e ON e.id = m.event WHERE d.reason = 'discarded by hand'")).split())
        await command(bed, "resume", receiver.name)
        await bed.rest(0, 0.5)
        await command(bed, "replay", "--integration", receiver.name, "--outcome", "dead")
    bed.tried["messages given up by hand"] = len(receiver.given_up)


async def replay(bed: Bed, deadline: float) -> None:
    """Messages that the first two receivers have accepted: each comes once more for each time."""
    while time.monotonic() < deadline:
        receiver = bed.rng.choice(bed.receivers[:2])
        if accepted := sorted(identifier for identifier, message in receiver.messages.items() if message.accepted):
            identifier = bed.rng.choice(accepted)
            fault = Fault("replay", time.monotonic(), in_flight={(receiver.name, identifier)})
            # Of a person who was erased meanwhile it is not known any more; what waits already is not replayed.
            try:
                queued = (await command(bed, "replay", "--message", identifier, "--integration", receiver.name))["queued"]
            except BenchError as error:
                if "no message" not in str(error):
                    raise
                queued = 0
            if queued:
                bed.faults.append(fault)
                receiver.replayed[identifier] += 1
        await bed.rest(0, 0.3)


async def erase(bed: Bed, erased: list[History], deadline: float) -> None:
    """People whose webhooks have all been acknowledged; some of these come again afterwards."""
    while time.monotonic() < deadline:
        done = [history for history in bed.sender.begun if history not in erased
                and all(webhook.event_id in bed.sender.acknowledged for webhook in history.webhooks)]
        if done:
            history = bed.rng.choice(done[-50:])
            erased.append(history)
            for receiver in bed.receivers:
                receiver.rewritten.update(webhook.event_id for webhook in history.webhooks)
            for holder in history.access:
                kind, _, name = holder.partition(":")
                answer = await command(bed, "erase", "--user" if kind == "user" else "--anonymous", name)
                if answer["left"] != 0:
                    bed.findings.add("something is left of a person who was erased", f"{holder}: {answer}")
        await bed.rest(0.1, 0.5)


def forget(bed: Bed, erased: list[History], ledger: Ledger) -> None:
    """Nothing of the erased is in the ledger, late duplicates included; then they are left out of what is compared."""
    purchases = {history.purchase for history in erased}
    events = {webhook.event_id for history in erased for webhook in history.webhooks}
    known = {event for event, _, _ in ledger.messages.values()} | set(ledger.events)
    for left in [*events & known, *purchases & {purchase for purchase, _ in ledger.access}]:
        bed.findings.add("what was erased is in the ledger", left)
    bed.sender.begun = [history for history in bed.sender.begun if history.purchase not in purchases]
    for event in events:
        bed.sender.acknowledged.pop(event, None)
    for receiver in bed.receivers:
        receiver.messages = {identifier: message for identifier, message in receiver.messages.items()
                             if message.purchase not in purchases}
        for identifier, count in receiver.replayed.items():
            message = receiver.messages.get(identifier)
            # One that comes too often is a duplicate that no fault explains.
            if message and len(message.accepted) < 1 + count:
                bed.findings.add(f"{receiver.name}: replays that did not come",
                                 f"{identifier}: {len(message.accepted) - 1}, not {count}")
