"""One history, sent step by step; after each the ledger is held against the reference."""

import collections
import dataclasses
import time

from relay import BenchError, Relay
from reference import GHOST, World, announced, erased
from webhooks import MINUTE_MS, Writer

DAY_MS = 1_440 * MINUTE_MS


@dataclasses.dataclass
class Difference:
    # What differs: `status`, `access`, `transfers`, `links`, `messages`, `answers`, `delivered`, `order`.
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Comparison:
    def __init__(self, relay: Relay):
        self.relay, self.number, self.was_erased = relay, 0, False
        self.base_ms = int(time.time()) // 60 * MINUTE_MS
        self.exceptions: collections.Counter[str] = collections.Counter()
        # Of the last history: how many transfers were announced, and whether one of the exceptions is among them.
        self.announced: dict[tuple[str, str, str], int] = {}
        self.had_exception = False
        # Messages that the receiver must have got by now.
        self.expected: dict[str, tuple[str, str | None, str | None]] = {}

    def run(self, steps: list[dict], always: bool = True) -> Difference | None:
        """`always`: compares after every step, not only in the end."""
        self.number += 1
        tag = f"h{self.number}"
        writer = self.writer = Writer(tag, self.base_ms, DAY_MS if steps[0].get("days") else MINUTE_MS)
        stated: list[dict] = []
        self.was_erased = False
        for step in steps:
            if step["says"] == "erase":
                try:
                    self.relay.erase(writer.name(step["user"]))
                except BenchError as error:
                    return Difference("status", f"step {step['id']}: {error}")
                stated, self.was_erased = erased(stated, step["user"]), True
                continue
            path, headers, body = writer.request(step)
            status, answer = self.relay.ask_again("POST", path, headers, body)
            if status != 200:
                return Difference("status", f"step {step['id']} was answered {status}: {answer[:160]!r}")
            at = self.relay.time_of_call(tag) if step.get("call") else writer.ms(step["at"])
            stated.append(step | {"at": at, "until": writer.until(step)})
            if (always or step is steps[-1]) and (found := self.compare(tag, stated)):
                return Difference(found.kind, f"after step {step['id']}: {found.text}")
        if self.was_erased:
            return None
        return self.compare_messages(tag, stated) or self.compare_answers(tag, stated)

    def compare(self, tag: str, stated: list[dict]) -> Difference | None:
        opinion, so_far = World(stated).opinion(), announced(stated)
        self.had_exception = bool(so_far.exceptions)
        expected = {(purchase, holder) for (purchase, holder), on in opinion.access.items() if on and not holder.startswith(GHOST)}
        access = {pair for pair in self.relay.access(tag) if not pair[1].startswith(GHOST)}
        if access != expected:
            return Difference("access", f"the ledger has {shown(access)}, the reference {shown(expected)}")
        if self.was_erased:
            return None
        self.announced = {pair: count for pair, count in so_far.counts.items() if count}
        transfers = self.relay.transfers(tag)
        if {pair: list(range(1, count + 1)) for pair, count in self.announced.items()} != transfers:
            return Difference("transfers", f"the ledger has {transfers}, the reference {self.announced}")
        links = {key: user for key, user in so_far.links.items() if user is not None}
        if (stored := self.relay.links(tag)) != links:
            return Difference("links", f"the ledger has {stored}, the reference {links}")
        if (products := self.relay.products(tag)) != opinion.products:
            return Difference("products", f"the ledger has {products}, the reference {opinion.products}")
        return None

    def compare_messages(self, tag: str, stated: list[dict]) -> Difference | None:
        """Each event is one message of its own, but for a native announcement that announces nothing; each transfer is
        one message to either side."""
        self.exceptions.update(announced(stated).exceptions)
        messages, events = self.relay.messages(tag), self.relay.events(tag)
        if len(events) != (count := len({step["id"] for step in stated})):
            return Difference("messages", f"{count} events were sent, {len(events)} are stored")
        if lost := [event["type"] for event in events if not event["findable"]]:
            return Difference("messages", f"nothing leads from the holder to its events: {lost}")
        own = collections.Counter(message["event"] for message in messages if not message["transfer"])
        for event in events:
            native = event["type"].endswith(("_TRANSFERRED", "_RECEIVED"))
            if own[event["id"]] != 1 and not (native and own[event["id"]] == 0):
                return Difference("messages", f"{own[event['id']]} messages of one {event['type']}")
        strange = [message for message in messages if not message["transfer"]
                   and message["type"] != message["event_type"]]
        if strange:
            return Difference("messages", f"messages without a transfer: {strange}")
        sides = collections.defaultdict(list)
        for message in messages:
            if message["transfer"]:
                sides[message["transfer"]].append(message["type"].rpartition("_")[2])
            self.expected["msg_" + message["key"]] = (message["type"], message["from_holder"], message["to_holder"])
        wrong = [names for names in sides.values() if sorted(names) != ["RECEIVED", "TRANSFERRED"]]
        if wrong or len(sides) != sum(self.announced.values()):
            return Difference("messages", f"{len(sides)} transfers of {sum(self.announced.values())} have messages {wrong}")
        return None

    def compare_answers(self, tag: str, stated: list[dict]) -> Difference | None:
        """What the API answers of each holder; what is over by the clock may be missing in it."""
        access, source = World(stated).opinion().access, stated[0]["source"]
        over = {step["purchase"] for step in stated if step.get("purchase") and step.get("until") is not None
                and step["until"] < (time.time() + 600) * 1000}
        writer = self.writer
        for holder in sorted({holder for _, holder in access}):
            name = writer.customer(holder) if source == "revenuecat" else writer.name(holder)
            field = "user_id" if holder.startswith("user:") else "anonymous_user_id"
            for environment in ("PRODUCTION", "SANDBOX"):
                page = self.relay.read(
                    f"/v1/entitlements?{field}={name}&active=true&environment={environment}&source={source}")
                seen = {row["purchase"].removesuffix(f"-{tag}") for row in page["data"]} - over
                has = {purchase.split("/")[2] for (purchase, other), on in access.items()
                       if on and other == holder and purchase.split("/")[1] == environment} - over
                if seen != has:
                    return Difference("answers", f"{holder} is answered {sorted(seen)}, and has {sorted(has)}")
        return None

    def delivered(self) -> Difference | None:
        """Every message of the histories so far came to the receiver."""
        self.relay.drain()
        got = {key: said(body) for key, body in self.relay.receiver.got.items()}
        missing = [stated for key, stated in self.expected.items() if key not in got]
        wrong = [(stated, got[key]) for key, stated in self.expected.items() if key in got and got[key] != stated]
        self.expected.clear()
        self.relay.receiver.got.clear()
        return Difference("delivered", f"{missing} never came, {wrong} came as others") if missing or wrong else None


def said(body: dict) -> tuple[str, str | None, str | None]:
    """Type, and from whom to whom."""
    transfer = body["data"]["transfer"] or {}
    sides = [storage_key(transfer.get(side)) for side in ("from", "to")]
    return body["type"], *sides


def storage_key(holder: dict | None) -> str | None:
    if holder is None:
        return None
    return f"user:{holder['user_id']}" if "user_id" in holder else f"anon:{holder['anonymous_user_id']}"


def shown(pairs: set[tuple[str, str]]) -> list[str]:
    return sorted(f"{holder} {purchase.split('/', 1)[1]}" for purchase, holder in pairs)
