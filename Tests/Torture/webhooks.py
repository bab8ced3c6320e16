"""What the sender sends, and what must come of it: histories of purchases, each with the transfers and the access that
the rules of the domain give it whatever the order of arrival. The expectation is written beside the history here, and
not worked out: it is the oracle."""

import dataclasses
import hashlib
import hmac
import json
import random
import uuid

# Event times are made up: arrival never decides, and a run with the same seed sends the same bytes.
EPOCH_MS = 1_767_225_600_000
MINUTE_MS, MONTH_MS = 60_000, 30 * 86_400_000
NATIVES = ("SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED")


@dataclasses.dataclass(frozen=True)
class Webhook:
    event_id: str
    name: str
    purchase: str
    body: bytes
    source: str = "purchasely"

    @property
    def is_native(self) -> bool:
        """Of a transfer: it is a message of its own only if it is the one that announced it."""
        return self.name in NATIVES


@dataclasses.dataclass
class History:
    purchase: str
    # Webhooks of a stage are sent at once, in any order; the next stage when all of them are acknowledged.
    stages: list[list[Webhook]]
    # From, to; as often as it happens.
    transfers: list[tuple[str, str]]
    # Holder as the ledger writes it (`user:…`, `anon:…`): whether it has access in the end.
    access: dict[str, bool]

    @property
    def webhooks(self) -> list[Webhook]:
        return [webhook for stage in self.stages for webhook in stage]


def signed_headers(secret: bytes, body: bytes) -> dict[str, str]:
    """Purchasely's: HMAC-SHA256 in hex over the timestamp and the body."""
    stamp = str(EPOCH_MS // 1000)
    digest = hmac.new(secret, stamp.encode() + body, hashlib.sha256).hexdigest()
    return {"X-PURCHASELY-TIMESTAMP": stamp, "X-PURCHASELY-REQUEST-SIGNATURE": digest}


class Histories:
    """Made one after the other from a seed."""

    def __init__(self, seed: str):
        self.rng = random.Random(f"{seed}/histories")
        self.made = 0
        self.shapes = {
            self.plain: 4, self.ended: 2, self.login: 4, self.silent_login: 2, self.announced_login: 3,
            self.other_account: 2, self.to_and_fro: 1, self.two_logins: 2, self.natives_alone: 2}

    def next(self) -> History:
        self.made += 1
        self.purchase = f"subs_{self.made:06d}_{self.rng.getrandbits(24):06x}"
        self.began_ms = EPOCH_MS + self.made * 1000
        shape = self.rng.choices(list(self.shapes), list(self.shapes.values()))[0]
        history = shape()
        for stage in history.stages:
            self.rng.shuffle(stage)
        return history

    def holder(self, kind: str, number: int = 0) -> str:
        return f"{kind}:{self.purchase}-{number}"

    def webhook(self, name: str, holder: str, minute: int, other: str | None = None) -> Webhook:
        """`other`: the other side of a native transfer."""
        event_id = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        at_ms = self.began_ms + minute * MINUTE_MS
        body: dict[str, object] = {
            "api_version": 3, "environment": "PRODUCTION", "event_name": name, "event_id": event_id,
            "event_created_at_ms": at_ms, "is_family_shared": False, "offer_type": "NONE",
            "plan": "premium_monthly", "product": "premium", "purchase_type": "RENEWING_SUBSCRIPTION",
            "store": "APPLE_APP_STORE", "store_app_bundle_id": "com.example.app",
            "subscription_status": "AUTO_RENEWING", "purchased_at_ms": self.began_ms,
            "effective_next_renewal_at_ms": self.began_ms + MONTH_MS, "purchasely_subscription_id": self.purchase,
            "store_transaction_id": f"{self.purchase}-1", "store_original_transaction_id": f"{self.purchase}-1",
            "customer_currency": "EUR", "plan_price_in_customer_currency": 9.99,
            # Bodies of many sizes, with what is not ASCII in them.
            "placement": "é" * self.rng.randrange(0, 300)}
        body[field(holder)] = holder.partition(":")[2]
        if other:
            side = "transferred_to_" if name == "SUBSCRIPTION_TRANSFERRED" else "transferred_from_"
            body[side + field(other)] = other.partition(":")[2]
        return Webhook(event_id, name, self.purchase, json.dumps(body, ensure_ascii=False).encode())

    # MARK: Shapes

    def plain(self) -> History:
        user = self.holder("user")
        return self.history([[self.webhook("ACTIVATE", user, 0), self.webhook("RENEWAL_DISABLED", user, 1)],
                             [self.webhook("RENEWAL_ENABLED", user, 2)]], [], {user: True})

    def ended(self) -> History:
        user = self.holder("user")
        return self.history([[self.webhook("ACTIVATE", user, 0), self.webhook("DEACTIVATE", user, 10)]], [],
                            {user: False})

    def login(self) -> History:
        """As Purchasely's own sample has it: both sides at the same millisecond."""
        old, new = self.holder("anon"), self.holder("user")
        return self.history(
            [[self.webhook("ACTIVATE", old, 0), self.webhook("DEACTIVATE", old, 5), self.webhook("ACTIVATE", new, 5)]],
            [(old, new)], {old: False, new: True})

    def silent_login(self) -> History:
        """The old side's DEACTIVATE never comes."""
        old, new = self.holder("anon"), self.holder("user")
        return self.history([[self.webhook("ACTIVATE", old, 0), self.webhook("ACTIVATE", new, 5)]],
                            [(old, new)], {old: False, new: True})

    def announced_login(self) -> History:
        """With the platform's own two events of the transfer."""
        old, new = self.holder("anon"), self.holder("user")
        return self.history(
            [[self.webhook("ACTIVATE", old, 0), self.webhook("DEACTIVATE", old, 5), self.webhook("ACTIVATE", new, 5),
              *self.natives(old, new)]],
            [(old, new)], {old: False, new: True})

    def other_account(self) -> History:
        old, new = self.holder("user", 1), self.holder("user", 2)
        return self.history(
            [[self.webhook("ACTIVATE", old, 0), self.webhook("ACTIVATE", new, 7), self.webhook("DEACTIVATE", old, 7)]],
            [(old, new)], {old: False, new: True})

    def to_and_fro(self) -> History:
        old, new = self.holder("anon"), self.holder("user")
        return self.history(
            [[self.webhook("ACTIVATE", holder, minute)
              for holder, minute in ((old, 0), (new, 5), (old, 10), (new, 15))]],
            [(old, new), (new, old), (old, new)], {old: False, new: True})

    def two_logins(self) -> History:
        """In stages: a third holder that comes late between two is the one order that I1 excepts (Domain.md, "Invariants")."""
        first, second, third = self.holder("anon"), self.holder("user", 1), self.holder("user", 2)
        return self.history(
            [[self.webhook("ACTIVATE", first, 0), self.webhook("ACTIVATE", second, 5),
              self.webhook("DEACTIVATE", first, 5)],
             [self.webhook("ACTIVATE", third, 10), self.webhook("DEACTIVATE", second, 10)]],
            [(first, second), (second, third)], {first: False, second: False, third: True})

    def natives_alone(self) -> History:
        old, new = self.holder("user", 1), self.holder("user", 2)
        return self.history(
            [self.natives(old, new)], [(old, new)], {old: False, new: True})

    def natives(self, old: str, new: str) -> list[Webhook]:
        return [self.webhook("SUBSCRIPTION_TRANSFERRED", old, 5, new),
                self.webhook("SUBSCRIPTION_RECEIVED", new, 5, old)]

    def history(self, stages: list[list[Webhook]], transfers: list[tuple[str, str]],
                access: dict[str, bool]) -> History:
        return History(self.purchase, stages, transfers, access)


def field(holder: str) -> str:
    return "user_id" if holder.startswith("user:") else "anonymous_user_id"
