"""What was answered 200, against what the receivers got and what the ledger says (psql, not ours)."""

import asyncio
import collections
import dataclasses
import json
import math
import time

from database import Server
from processes import BenchError
from receivers import Message, Receiver
from sender import Sender

# How exactly a receiver's stamp and a fault's can be compared: an answer may still be on its way.
SLACK_S = 1.0
# Longer than it takes from a receiver's answer to its settling, while nothing is broken but the machine is busy.
SETTLED_S = 10.0
# Shorter than the least that is left of a lease (Limits.leaseDuration, leaseRenewal), after which another daemon takes
# over.
LEASED_S = 8
# Shorter than any integration's time-out.
STALL_S = 1.0
EXAMPLES = 3
# Of messages m joined with their events e: what passes an event on has the event's key.
MESSAGE_ID = "'msg_' || replace(coalesce(m.key, e.key)::text, '-', '')"


@dataclasses.dataclass
class Fault:
    """Something that was broken for a while, and may make deliveries come twice."""

    what: str
    began: float
    ended: float = math.inf
    # Receiver and webhook-id of what was leased when a daemon was killed, frozen or cut off: nothing else may come
    # twice by it. None where it cannot be asked: then only what was accepted about that time may.
    in_flight: set[tuple[str, str]] | None = None
    # How long before it something may have been accepted that comes twice by it.
    settled_s: float = SETTLED_S

    def explains(self, receiver: str, identifier: str, first: float, again: float) -> bool:
        if again < self.began - SLACK_S or first > self.ended + SLACK_S:
            return False
        if self.in_flight is not None:
            return (receiver, identifier) in self.in_flight
        return first >= self.began - self.settled_s


async def watch(stalls: list[Fault]) -> None:
    """Notes when this process, in which the receivers are, stood still. What a receiver answers after that the relay
    may have given up before, and then it comes again."""
    last = time.monotonic()
    while True:
        await asyncio.sleep(0.1)
        now = time.monotonic()
        if now - last > STALL_S:
            stalls.append(Fault("the receivers stood still", last, now, settled_s=SLACK_S))
        last = now


async def leased(server: Server) -> set[tuple[str, str]]:
    """Receiver and webhook-id of each delivery that is leased now."""
    rows = await server.ask(
        f"SELECT i.name, {MESSAGE_ID} FROM deliveries d JOIN messages m ON m.id = d.message "
        "JOIN events e ON e.id = m.event "
        "JOIN integrations i ON i.id = d.integration WHERE d.leased_by IS NOT NULL", patience_s=LEASED_S)
    return {tuple(row.split("|")) for row in rows.splitlines()}


@dataclasses.dataclass
class Findings:
    """What must not be, each with a few examples."""

    found: dict[str, list[str]] = dataclasses.field(default_factory=lambda: collections.defaultdict(list))

    def add(self, what: str, example: object = "") -> None:
        # On one line: who picks out the findings of a long log takes whole lines.
        self.found[what].append(" | ".join(str(example).splitlines()))

    def __bool__(self) -> bool:
        return bool(self.found)

    def lines(self) -> list[str]:
        return [f"{what}: {len(examples)}" + (f" ({'; '.join(examples[:EXAMPLES])})" if any(examples) else "")
                for what, examples in self.found.items()]


@dataclasses.dataclass
class Ledger:
    """The tables, read once the queue is empty."""

    # Webhook-ids with their event, type and row.
    messages: dict[str, tuple[str, str, int]]
    # How often each vendor's event id is stored.
    events: collections.Counter[str]
    # Purchase key, from, to: how often.
    transfers: collections.Counter[tuple[str, str, str]]
    access: dict[tuple[str, str], bool]
    # Integration name: messages with an accepted attempt.
    accepted: dict[str, set[str]]
    # Integration name: messages given up, and those with an attempt that timed out.
    dead: dict[str, set[str]]
    timed_out: dict[str, set[str]]
    # Ids of events that neither their holder nor the holder's purchases lead to.
    unfindable: list[str]

    @staticmethod
    async def read(server: Server, after: int = 0) -> "Ledger":
        """Of what belongs to events with a higher id than `after`; with 0 of everything."""
        async def rows(sql: str) -> list[list]:
            return json.loads(await server.ask(f"SELECT coalesce(json_agg(json_build_array{sql}", patience_s=120))

        theirs = f"WHERE p.id IN (SELECT purchase FROM events WHERE id > {after})" if after else ""
        messages = await rows(f"({MESSAGE_ID}, e.vendor_event_id, m.type, m.id)), '[]') FROM messages m "
                              f"JOIN events e ON e.id = m.event WHERE e.id > {after} AND m.type NOT LIKE 'posthouse.%'")
        events = await rows("(vendor_event_id, count)), '[]') FROM (SELECT vendor_event_id, count(*) FROM events "
                            f"WHERE id > {after} GROUP BY 1) t")
        transfers = await rows("(p.key, from_holder, to_holder)), '[]') FROM transfers t "
                               f"JOIN purchases p ON p.id = t.purchase WHERE t.event > {after}")
        access = await rows("(p.key, holder, active)), '[]') FROM entitlements e "
                            f"JOIN purchases p ON p.id = e.purchase {theirs}")
        accepted = await rows(f"(i.name, {MESSAGE_ID})), '[]') FROM attempts a JOIN integrations i ON i.id = a.integration "
                              "JOIN messages m ON m.id = a.message JOIN events e ON e.id = m.event "
                              f"WHERE e.id > {after} AND a.outcome = 'accepted'")
        dead = await rows(f"(i.name, {MESSAGE_ID})), '[]') FROM dead_letters d JOIN integrations i ON i.id = d.integration "
                          "JOIN messages m ON m.id = d.message JOIN events e ON e.id = m.event "
                          f"WHERE e.id > {after} AND m.type NOT LIKE 'posthouse.%'")
        timed_out = await rows(f"(i.name, {MESSAGE_ID})), '[]') FROM attempts a "
                               "JOIN integrations i ON i.id = a.integration "
                               "JOIN messages m ON m.id = a.message JOIN events e ON e.id = m.event "
                               f"WHERE e.id > {after} AND a.failure LIKE '%timed out%'")
        unfindable = await rows("(e.vendor_event_id)), '[]') FROM events e "
                                f"WHERE e.id > {after} AND NOT e.stray AND e.holder <> '' "
                                "AND NOT EXISTS (SELECT FROM entitlements n WHERE n.purchase = e.purchase "
                                "AND n.holder = e.holder)")
        return Ledger(
            {row[0]: (row[1], row[2], row[3]) for row in messages}, collections.Counter(dict(events)),
            collections.Counter(tuple(row) for row in transfers), {(row[0], row[1]): row[2] for row in access},
            by_integration(accepted), by_integration(dead), by_integration(timed_out),
            [row[0] for row in unfindable])


def by_integration(rows: list[list]) -> dict[str, set[str]]:
    messages: dict[str, set[str]] = collections.defaultdict(set)
    for name, message in rows:
        messages[name].add(message)
    return messages


async def drain(server: Server, findings: Findings, patience_s: float, living: int) -> float:
    """Waits until the queue is empty by itself; returns how long that took."""
    began = time.monotonic()
    leased_by_the_dead = (
        "SELECT count(*) FROM deliveries WHERE leased_by IS NOT NULL AND leased_by NOT IN (SELECT id FROM daemons)")
    counted = ""
    while time.monotonic() - began < patience_s:
        try:
            counted = await server.ask(
                "SELECT count(*), count(*) FILTER (WHERE blocked), count(leased_by), min(due_at) FROM deliveries")
            if counted.startswith("0|"):
                break
        except BenchError as error:
            counted = str(error)
        await asyncio.sleep(0.1)
    else:
        findings.add("the queue did not drain by itself (waiting|blocked|leased|next due)",
                     f"{counted}, leased by the dead {await server.ask(leased_by_the_dead)}")
    took = time.monotonic() - began
    # A daemon that died expires with the next renewal, of a frozen machine's daemon when its time is over.
    while (daemons := int(await server.ask("SELECT count(*) FROM daemons"))) != living:
        if time.monotonic() - began > max(patience_s, took + 25):
            findings.add("leases of daemons that are gone are still there", daemons - living)
            break
        await asyncio.sleep(0.2)
    return took


def examine(sender: Sender, receivers: list[Receiver], ledger: Ledger, findings: Findings,
            faults: list[Fault]) -> list[str]:
    """Holds everything against everything; returns the duplicates on the wire that one of these faults explains."""
    sent = {webhook.event_id: webhook for history in sender.begun for webhook in history.webhooks}
    for event_id in sender.unacknowledged:
        findings.add("webhooks that were never acknowledged", event_id)
    for answer, count in sender.answers.items():
        if answer not in ("200", "503", "refused", "cut", "late"):
            findings.add(f"webhooks answered {answer}", f"{count} times")
    for event_id in sender.acknowledged:
        if ledger.events[event_id] != 1:
            findings.add("acknowledged events that the ledger has not exactly once",
                         f"{event_id}: {ledger.events[event_id]}")
    reported = collections.Counter(event for event, type_, _ in ledger.messages.values())
    for event_id in sender.acknowledged:
        if reported[event_id] == 0 and not sent[event_id].is_native:
            findings.add("acknowledged events without a message", event_id)
    for event_id in ledger.unfindable:
        findings.add("events that nothing leads to", event_id)
    examine_transfers(sender, ledger, findings)
    duplicates: list[str] = []
    for receiver in receivers:
        examine_wire(sender, receiver, ledger, findings)
        examine_dead_letters(receiver, receivers, ledger, findings)
        duplicates += examine_repeats(receiver, findings, faults)
        examine_order(receiver, ledger, findings)
    return duplicates


def examine_transfers(sender: Sender, ledger: Ledger, findings: Findings) -> None:
    expected = collections.Counter(
        (history.purchase, old, new) for history in sender.begun for old, new in history.transfers)
    for transfer in expected.keys() | ledger.transfers.keys():
        if ledger.transfers[transfer] < expected[transfer]:
            findings.add("transfers missed", transfer)
        elif ledger.transfers[transfer] > expected[transfer]:
            findings.add("transfers too many", transfer)
    for history in sender.begun:
        for holder, has_access in history.access.items():
            if ledger.access.get((history.purchase, holder), False) != has_access:
                findings.add("entitlements that are wrong", f"{history.purchase} {holder}: not {has_access}")


def examine_wire(sender: Sender, receiver: Receiver, ledger: Ledger, findings: Findings) -> None:
    for complaint, count in receiver.complaints.items():
        findings.add(f"{receiver.name}: {complaint}", f"{count} times")
    got = {identifier: message for identifier, message in receiver.messages.items() if message.answered}
    for identifier in ledger.messages.keys() - got.keys():
        findings.add(f"{receiver.name}: messages that never arrived", f"{identifier} {ledger.messages[identifier]}")
    for identifier in receiver.messages.keys() - ledger.messages.keys():
        findings.add(f"{receiver.name}: messages that the ledger does not know", identifier)
    accepted = {identifier for identifier, message in got.items() if message.accepted}
    for identifier in accepted - ledger.accepted[receiver.name]:
        findings.add(f"{receiver.name}: accepted, and the ledger has no attempt that says so", identifier)
    # Beside the ledger: what the sender was promised must be here, whatever the tables say.
    of_event = collections.Counter(message.event_id for message in got.values())
    for history in sender.begun:
        for webhook in history.webhooks:
            if webhook.event_id in sender.acknowledged and not webhook.is_native and of_event[webhook.event_id] != 1:
                findings.add(f"{receiver.name}: acknowledged events that did not come as one message",
                             f"{webhook.event_id}: {of_event[webhook.event_id]}")
    sides = collections.Counter((message.purchase, message.transfer[1], message.transfer[2], message.type)
                                for message in got.values() if message.transfer)
    expected = collections.Counter((history.purchase, old, new, f"SUBSCRIPTION_{side}") for history in sender.begun
                                   for old, new in history.transfers for side in ("TRANSFERRED", "RECEIVED"))
    for side in expected.keys() | sides.keys():
        if sides[side] != expected[side]:
            findings.add(f"{receiver.name}: sides of a transfer not announced as often as it happened",
                         f"{side}: {sides[side]}, not {expected[side]}")
    pairs = collections.Counter(message.transfer[0] for message in got.values() if message.transfer)
    for transfer, count in pairs.items():
        if count != 2:
            findings.add(f"{receiver.name}: transfer ids that do not name both sides", transfer)


def examine_dead_letters(receiver: Receiver, receivers: list[Receiver], ledger: Ledger, findings: Findings) -> None:
    """What a receiver refuses for good is given up, nothing else is; the others hear of each once, if they asked."""
    refused = {identifier for identifier in ledger.messages if receiver.refuses(identifier)}
    dead = ledger.dead[receiver.name]
    for identifier in dead - refused:
        findings.add(f"{receiver.name}: dead letters that nobody refused", identifier)
    for identifier in refused - dead:
        findings.add(f"{receiver.name}: refused for good, and no dead letter", identifier)
    for identifier in dead & ledger.accepted[receiver.name]:
        findings.add(f"{receiver.name}: accepted and a dead letter", identifier)
    for other in receivers:
        if other is receiver or not other.is_notified:
            continue
        named = collections.Counter(
            message for notice in other.notices.values()
            if notice.type == "posthouse.integration.dead" and notice.about[0] == receiver.name
            for message in notice.about[1])
        for identifier in dead:
            if named[identifier] != 1:
                findings.add(f"{other.name}: dead letters of {receiver.name} that it did not hear of once",
                             f"{identifier}: {named[identifier]}")


def examine_repeats(receiver: Receiver, findings: Findings, faults: list[Fault]) -> list[str]:
    """A message that was answered for good comes again only if something broke between that and its settling, and at
    most once for each fault that it was in flight at."""
    explained = []
    for identifier, message in receiver.messages.items():
        left = list(faults)
        for first, again in zip(message.answered, message.answered[1:]):
            fault = next((fault for fault in left if fault.explains(receiver.name, identifier, first, again)), None)
            if fault:
                left.remove(fault)
                explained.append(f"{identifier} at {receiver.name} after {again - first:.2f} s")
            else:
                findings.add(f"{receiver.name}: duplicates that no fault explains",
                             f"{identifier} after {again - first:.2f} s")
    return explained


def examine_left(receivers: list[Receiver], ledger: Ledger, findings: Findings, stalls: list[Fault]) -> None:
    """Where nothing is broken the relay leaves before the answer only if the time of its attempt is over, which the
    ledger says then: it cuts no attempt."""
    for receiver in receivers:
        for identifier, message in receiver.messages.items():
            unexplained = [at for at in message.left
                           if not any(stall.began - SLACK_S <= at <= stall.ended + SLACK_S for stall in stalls)]
            if unexplained and identifier not in ledger.timed_out[receiver.name]:
                findings.add(f"{receiver.name}: attempts that were cut before their time was over", identifier)


def examine_order(receiver: Receiver, ledger: Ledger, findings: Findings) -> None:
    """`order = "purchase"`: nothing of a purchase is tried before what is before it was answered for good, or given up
    by an operator."""
    by_purchase: dict[str, list[tuple[int, Message]]] = collections.defaultdict(list)
    for identifier, message in receiver.messages.items():
        if message.purchase and identifier in ledger.messages and identifier not in receiver.given_up:
            by_purchase[message.purchase].append((ledger.messages[identifier][2], message))
    for purchase, entries in by_purchase.items():
        entries.sort(key=lambda entry: entry[0])
        for (_, before), (_, after) in zip(entries, entries[1:]):
            if before.answered and after.arrived[0] < before.answered[0]:
                findings.add(f"{receiver.name}: out of order",
                             f"{purchase}: {after.type} {before.answered[0] - after.arrived[0]:.3f} s too early")
