"""The dimensions in which a ledger can become hot: many of one thing at one purchase, one holder, one batch. Each says
what is sent, the n-th time, and which questions are asked of the result."""

import collections.abc
import dataclasses
import itertools
import json

EPOCH_MS = 1_767_225_600_000
MINUTE_MS, YEAR_MS = 60_000, 365 * 86_400_000
TOKEN = "torture-api-token"
# Sources that trust whoever asks: what is measured here is no signature.
SOURCES = "".join(
    f'[[source]]\nname = "hot-{kind}"\nkind = "{kind}"\nauth = "none"\napp = "com.example.app"\n{more}'
    for kind, more in (("purchasely", ""), ("revenuecat", ""), ("sessions", "merge = true\n"),
                       ("qonversion", 'ownership = "install_and_identity"\n')))

Request = tuple[str, dict]


@dataclasses.dataclass
class Dimension:
    name: str
    # The n-th of it, from 1 on: path and body.
    make: collections.abc.Callable[[int], Request]
    # What is sent before so many of it.
    before: collections.abc.Callable[[int], list[Request]] = lambda _: []
    # Sent at the end, when all are there; what they take is said.
    after: list[Request] = dataclasses.field(default_factory=list)
    # Commands and paths of the API that are asked at the end.
    questions: list[str] = dataclasses.field(default_factory=list)
    # All of a block at once, on a connection each, from the middle on: the blocks before are the comparison.
    at_once: bool = False
    # So many integrations that want nothing of it are there at the end.
    integrations: bool = False
    # The receiver refuses all of it for good.
    refused_for_good: bool = False

    @property
    def what(self) -> str:
        return (self.make.__doc__ or "").strip()


def ingest(kind: str, body: dict) -> Request:
    return f"/ingest/hot-{kind}", body


def purchasely(name: str, n: int, purchase: str, **holder: str) -> Request:
    at_ms = EPOCH_MS + n * MINUTE_MS
    return ingest("purchasely", {
        "api_version": 3, "environment": "PRODUCTION", "event_name": name, "event_id": f"{purchase}-{name}-{n}",
        "event_created_at_ms": at_ms, "is_family_shared": False, "offer_type": "NONE", "plan": "monthly",
        "product": "premium", "purchase_type": "RENEWING_SUBSCRIPTION", "store": "APPLE_APP_STORE",
        "subscription_status": "AUTO_RENEWING", "purchased_at_ms": EPOCH_MS,
        "effective_next_renewal_at_ms": at_ms + YEAR_MS, "purchasely_subscription_id": purchase,
        "store_transaction_id": f"{purchase}-t{n}", "store_original_transaction_id": f"{purchase}-t0", **holder})


def qonversion(name: str, n: int, transaction: str, install: str, identity: str = "") -> Request:
    return ingest("qonversion", {
        "event_name": name, "user_id": install, "identity_id": identity, "created_at": EPOCH_MS // 1000 + n,
        "product_id": "premium", "environment": "production", "platform": "iOS", "transaction": {
            "transaction_id": f"{transaction}-{n}", "original_transaction_id": transaction,
            "expires": (EPOCH_MS + YEAR_MS) // 1000}})


def revenuecat(type_: str, n: int, **fields: object) -> Request:
    return ingest("revenuecat", {"api_version": "1.0", "event": {
        "type": type_, "id": f"rc-{type_}-{n}", "event_timestamp_ms": EPOCH_MS + n * 1000, "app_id": "app1",
        "environment": "PRODUCTION", "store": "APP_STORE", **fields}})


def session(type_: str, event_id: str, n: int, **data: object) -> Request:
    minute, day = n % 1440, n // 1440 % 28 + 1
    return ingest("sessions", {"type": type_, "timestamp": f"2026-01-{day:02}T{minute // 60:02}:{minute % 60:02}:00Z",
                               "data": {"event_id": event_id, "environment": "production", **data}})


def act(install: str, action: str, **body: object) -> Request:
    return f"/v1/users/{install}/{action}?source=hot-qonversion&environment=PRODUCTION", body


def webhooks(n: int) -> Request:
    """webhooks of one purchase"""
    return purchasely("ACTIVATE" if n == 1 else "RENEW", n, "subs_webhooks", user_id="u")


def transfers(n: int) -> Request:
    """transfers of one purchase, to and fro"""
    return purchasely("ACTIVATE", n, "subs_transfers", **({"user_id": "u"} if n % 2 else {"anonymous_user_id": "a"}))


def restores(n: int) -> Request:
    """restores of one purchase on two installs in turn"""
    return act(f"r{n % 2}", "restore", transactions=["restores-1"], strategy="transfer")


def installs(n: int) -> Request:
    """installs of one identity"""
    return act(f"i{n}", "identify", identity="one")


def identities(n: int) -> Request:
    """identities on one install"""
    return act("shared", "identify", identity=f"id{n}")


def logins(n: int) -> Request:
    """logins of one device"""
    return session("SESSION_LOGIN", f"login-{n}", n, anonymous_id="device", user_id=f"user{n}")


def devices(n: int) -> Request:
    """devices that log in as one user, each with a purchase"""
    return session("SESSION_LOGIN", f"device-login-{n}", n, anonymous_id=f"device-{n}", user_id="owner")


def purchases(n: int) -> Request:
    """purchases of one holder"""
    return revenuecat("INITIAL_PURCHASE", n, app_user_id="rich", product_id="weekly", period_type="NORMAL",
                      purchased_at_ms=EPOCH_MS, expiration_at_ms=EPOCH_MS + YEAR_MS, transaction_id=f"tx{n}",
                      original_transaction_id=f"tx{n}", is_family_share=False)


def holders(n: int) -> Request:
    """holders of one shared purchase"""
    return act(f"h{n}", "restore", transactions=["holders-1"], strategy="copy")


def changes(n: int) -> Request:
    """logins in one batch, each device with a purchase"""
    return session("SESSION_LOGIN", f"batch-login-{n}", n, anonymous_id=f"batch-{n}", user_id=f"batch-user-{n}")


def duplicates(n: int) -> Request:
    """one webhook many times in one batch"""
    return purchasely("ACTIVATE", n // 1000, "subs_duplicates", user_id="u")


def integrations(n: int) -> Request:
    """integrations"""
    return purchasely("ACTIVATE", n, f"subs_integrations_{n}", user_id=f"u{n}")


def quarantine(n: int) -> Request:
    """bodies in quarantine"""
    return ingest("purchasely", {"hello": n})


def dead_letters(n: int) -> Request:
    """dead letters"""
    return purchasely("ACTIVATE", n, f"subs_dead_{n}", user_id=f"u{n}")


def started(transaction: str, install: str, identity: str = "") -> collections.abc.Callable[[int], list[Request]]:
    return lambda _: [qonversion("subscription_started", 1, transaction, install, identity)]


def bought(device: str) -> Request:
    return session("ACTIVATE", f"bought-{device}", 0, anonymous_id=device, purchase_id=device, product="premium",
                   store_transaction_id=device, store="app_store", purchase_type="RENEWING_SUBSCRIPTION",
                   effective_next_renewal_at_ms=EPOCH_MS + YEAR_MS)


def moved(number: int) -> list[Request]:
    """All purchases of one holder to another and back, so often."""
    sides = itertools.cycle((("rich", "heir"), ("heir", "rich")))
    return [revenuecat("TRANSFER", 1_000_000 + n, transferred_from=[old], transferred_to=[new])
            for n, (old, new) in zip(range(number), sides)]


DIMENSIONS = [
    Dimension("webhooks", webhooks, questions=[
        "trace subs_webhooks-t1", "events --user u --limit 10000", "/v1/history?user_id=u",
        "/v1/entitlements?user_id=u"]),
    Dimension("transfers", transfers, questions=[
        "trace subs_transfers-t1", "/v1/transfers?user_id=u", "/v1/entitlements?user_id=u"]),
    Dimension("restores", restores, started("restores-1", "r0"), questions=[
        "trace restores-1-1", "/v1/transfers?install=r0", "/v1/entitlements?install=r1"],
        after=[qonversion("subscription_renewed", 2_000_000, "restores-1", "r0")]),
    Dimension("installs", installs, started("installs-1", "i1", "one"), questions=[
        "trace installs-1-1", "/v1/identities?user_id=one", "/v1/entitlements?user_id=one"]),
    Dimension("identities", identities, started("identities-1", "shared"), questions=[
        "trace --anonymous shared", "/v1/entitlements?install=shared"]),
    Dimension("logins", logins, lambda _: [bought("device")], questions=[
        "trace --anonymous device", "/v1/entitlements?anonymous_user_id=device"]),
    Dimension("devices", devices, lambda count: [bought(f"device-{n}") for n in range(1, count + 1)], questions=[
        "trace --user owner", "/v1/entitlements?user_id=owner", "/v1/identities?user_id=owner"]),
    Dimension("purchases", purchases, after=moved(3), questions=[
        "trace --user rich", "events --user heir --limit 10000", "/v1/entitlements?user_id=heir",
        "/v1/history?user_id=rich"]),
    Dimension("holders", holders, started("holders-1", "h0"), questions=[
        "trace holders-1-1", "/v1/entitlements?install=h1"],
        after=[qonversion("subscription_renewed", 2_000_000, "holders-1", "h0")]),
    Dimension("changes", changes, lambda count: [bought(f"batch-{n}") for n in range(1, count + 1)], at_once=True,
              questions=["/v1/identities?user_id=batch-user-1"]),
    Dimension("duplicates", duplicates, at_once=True, questions=["trace subs_duplicates-t0"]),
    Dimension("integrations", integrations, integrations=True, questions=["check"]),
    Dimension("quarantine", quarantine, questions=["quarantine list"]),
    Dimension("dead-letters", dead_letters, refused_for_good=True, questions=[
        "deliveries --state dead --limit 10000"]),
]
