"""Purchases of holders that many purchases share: logins of `sessions` and TRANSFERs of RevenueCat, each of which moves
all that a holder has, while daemons die. Event times decide, so what must come of it is worked out here by walking all
statements in their order, which is not the order of their arrival."""

import collections
import json
import time

import faults
from bed import Bed, Plan
from oracle import Ledger
from webhooks import EPOCH_MS, MONTH_MS, Histories, History, Webhook

DEVICES = USERS = CUSTOMERS = 10
YEAR_MS = 12 * MONTH_MS
TABLES = ('[[source]]\nname = "sessions"\nkind = "sessions"\nauth = "none"\napp = "com.example.app"\nmerge = true\n'
          '[[source]]\nname = "revenuecat"\nkind = "revenuecat"\nauth = "none"\napp = "com.example.app"\n')


class SharedHistories(Histories):
    """One webhook each; an event is later than all that were made before it."""

    def __init__(self, seed: str):
        super().__init__(seed)
        self.shapes = {self.bought: 5, self.login: 2, self.subscribed: 5, self.transfer: 2}
        # Of the sender: when an event was acknowledged.
        self.acknowledged: dict[str, float] = {}
        # By whose holdings are moved: the event that moved them last.
        self.moved_last: dict[str, str] = {}
        # Source, from, to in the order of event times; where `from` is "" the purchase `to` comes to its holder.
        self.moves: dict[str, tuple[str, str, str]] = {}

    def next(self) -> History:
        self.made += 1
        self.at_ms = EPOCH_MS + self.made * 1000
        self.key = f"shared-{self.made:06d}"
        shape = self.rng.choices(list(self.shapes), list(self.shapes.values()))[0]
        return shape()

    def one(self, name: str, source: str, body: dict, move: tuple[str, str, str]) -> History:
        self.moves[self.key] = move
        webhook = Webhook(self.key, name, self.key, json.dumps(body).encode(), source)
        return History(self.key, [[webhook]], [], {})

    def any(self, kind: str, count: int) -> str:
        return f"{kind}{self.rng.randrange(count)}"

    def mover(self, kind: str, count: int) -> str | None:
        """Somebody whose last move has been acknowledged: of two moves by one holder the one that comes first stays,
        so they come in their order."""
        holder = self.any(kind, count)
        if (last := self.moved_last.get(holder)) and last not in self.acknowledged:
            return None
        self.moved_last[holder] = self.key
        return holder

    # MARK: sessions

    def bought(self) -> History:
        device = self.any("device", DEVICES)
        return self.session("ACTIVATE", {
            "anonymous_id": device, "purchase_id": self.key, "product": "premium", "store": "app_store",
            "store_transaction_id": self.key, "purchase_type": "RENEWING_SUBSCRIPTION",
            "effective_next_renewal_at_ms": self.at_ms + YEAR_MS}, ("sessions", "", f"anon:{device}"))

    def login(self) -> History:
        device, user = self.mover("device", DEVICES), self.any("user", USERS)
        if device is None:
            return self.bought()
        return self.session("SESSION_LOGIN", {"anonymous_id": device, "user_id": user},
                            ("sessions", f"anon:{device}", f"user:{user}"))

    def session(self, name: str, data: dict, move: tuple[str, str, str]) -> History:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.at_ms / 1000))
        return self.one(name, "sessions", {"type": name, "timestamp": stamp, "data": {
            "event_id": self.key, "environment": "production"} | data}, move)

    # MARK: RevenueCat

    def subscribed(self) -> History:
        customer = self.any("customer", CUSTOMERS)
        return self.revenuecat("INITIAL_PURCHASE", {
            "app_user_id": customer, "product_id": "weekly", "period_type": "NORMAL", "purchased_at_ms": self.at_ms,
            "expiration_at_ms": self.at_ms + YEAR_MS, "transaction_id": self.key, "original_transaction_id": self.key,
            "is_family_share": False}, ("revenuecat", "", f"user:{customer}"))

    def transfer(self) -> History:
        old, new = self.mover("customer", CUSTOMERS), self.any("customer", CUSTOMERS)
        if old is None or old == new:
            return self.subscribed()
        return self.revenuecat("TRANSFER", {"transferred_from": [old], "transferred_to": [new]},
                               ("revenuecat", f"user:{old}", f"user:{new}"))

    def revenuecat(self, name: str, fields: dict, move: tuple[str, str, str]) -> History:
        return self.one(name, "revenuecat", {"api_version": "1.0", "event": {
            "type": name, "id": self.key, "event_timestamp_ms": self.at_ms, "app_id": "app1",
            "environment": "PRODUCTION", "store": "APP_STORE"} | fields}, move)

    # MARK: What must come of it

    def expect(self, begun: list[History], ledger: Ledger) -> None:
        """The holder in the end, and the transfers on the way. A statement that comes late between two reveals a
        transfer, and the one that was announced before it stays: so there may be more of them, but none less."""
        announced: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
        for (purchase, old, new), count in ledger.transfers.items():
            announced[purchase] += [(old, new)] * count
        holding: dict[tuple[str, str], list[History]] = collections.defaultdict(list)
        for history in begun:
            source, old, new = self.moves[history.purchase]
            moved = holding.pop((source, old), []) if old else [history]
            for purchase in moved:
                if old:
                    purchase.transfers.append((old, new))
                    purchase.access[old] = False
                purchase.access[new] = True
            holding[source, new] += moved
        for history in begun:
            expected, found = collections.Counter(history.transfers), announced[history.purchase]
            if expected <= collections.Counter(found):
                history.transfers = found


PLAN = Plan(daemons=2, per_second=40, histories=SharedHistories, tables=TABLES)


async def shared_holders(bed: Bed) -> None:
    """logins and TRANSFERs of few holders with many purchases, daemons killed and frozen meanwhile"""
    bed.expect = bed.sender.histories.expect
    bed.sender.histories.acknowledged = bed.sender.acknowledged
    async with bed.load():
        deadline = time.monotonic() + bed.seconds
        while time.monotonic() < deadline:
            await bed.rest(0.5, 2)
            await bed.rng.choice([faults.kill_daemon, faults.freeze_briefly, faults.end_connections])(bed)
