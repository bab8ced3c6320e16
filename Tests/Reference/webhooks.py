"""Steps of a history as requests: the bodies, signatures and paths of each kind of source. Ids get a tag, so that
histories share nothing in one database."""

import base64
import datetime
import hashlib
import hmac
import json

MINUTE_MS = 60_000
TOKEN = "reference-token-of-16-bytes"
WHSEC = "whsec_" + base64.b64encode(bytes(range(32))).decode()
# Name, and what is in its table beside name, kind and secret.
SOURCES = {
    "purchasely": ("purchasely", ""),
    "qonversion": ("qonversion", ""),
    "single": ("qonversion", 'ownership = "exclusive"'),
    "apphud": ("apphud", 'environment = "PRODUCTION"'),
    "revenuecat": ("revenuecat", 'app = "com.example"'),
    "adapty": ("adapty", ""),
    "merging": ("sessions", "merge = true"),
    "apart": ("sessions", ""),
}
# What a write names, where events of the kind can name an app and the configuration does not.
APPS = {"purchasely": "com.example", "apphud": "com.example", "merging": "", "apart": ""}
RC_ANONYMOUS = "$RCAnonymousID:"


def iso(ms: int) -> str:
    time = datetime.datetime.fromtimestamp(ms // 1000, datetime.timezone.utc)
    return time.strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03d}Z"


class Writer:
    """Writes the steps of one history."""

    def __init__(self, tag: str, base_ms: int, minute_ms: int = MINUTE_MS):
        """`minute_ms`: how long a minute of the history is; a day is as good."""
        self.tag, self.base_ms, self.minute_ms = tag, base_ms, minute_ms

    def name(self, holder: str) -> str:
        """The vendor's id of a holder, a purchase or an event."""
        return f"{holder.partition(':')[2] or holder}-{self.tag}"

    def ms(self, minute: float) -> int:
        return self.base_ms + round(minute * self.minute_ms)

    def until(self, step: dict) -> int | None:
        return None if step.get("until") is None else self.ms(step["until"])

    def request(self, step: dict) -> tuple[str, dict[str, str], bytes]:
        if step["says"] in ("identify", "logout", "restore", "user"):
            return self.command(step)
        kind = SOURCES[step["source"]][0]
        body = json.dumps(getattr(self, kind)(step)).encode()
        return f"/ingest/{step['source']}", getattr(self, f"{kind}_headers")(body, step), body

    def command(self, step: dict) -> tuple[str, dict[str, str], bytes]:
        says, install = step["says"], self.name(step["anonymous"])
        query = f"?source={step['source']}&environment={step.get('environment', 'PRODUCTION')}"
        if step["source"] in APPS:
            query += f"&app={APPS[step['source']]}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if says == "identify":
            body: dict[str, object] = {"identity": self.name(step["user"])}
        elif says == "restore":
            body = {"transactions": [self.name(name) for name in step["purchases"]], "strategy": step["strategy"]}
        else:
            body = {}
        if says == "user":
            return f"/v3/users/{install}{query}", headers, b"{}"
        return f"/v1/users/{install}/{says}{query}", headers, json.dumps(body).encode() if body else b""

    # MARK: Purchasely

    def purchasely(self, step: dict) -> dict:
        says = step["says"]
        kind = "ONE_TIME_PURCHASE" if step.get("one_time") else "SUBSCRIPTION"
        name = {"gain": "ACTIVATE", "loss": "DEACTIVATE", "revoked": "DEACTIVATE",
                "transferred": f"{kind}_TRANSFERRED", "received": f"{kind}_RECEIVED"}.get(says, "RENEWAL_DISABLED")
        body = {
            "api_version": 3, "event_name": name, "event_created_at_ms": self.ms(step["at"]),
            "environment": step.get("environment", "PRODUCTION"), "store": "APPLE_APP_STORE",
            "store_app_bundle_id": "com.example", "product": step.get("product", "premium"),
            "plan": step.get("plan", "monthly"), "offer_type": "NONE",
            "is_family_shared": step.get("family", False),
            "subscription_status": "REVOKED" if says == "revoked" else "AUTO_RENEWING",
            "store_transaction_id": self.name(step["purchase"]) + "-t",
            self.field(step["holder"]): self.name(step["holder"]),
            "purchased_at_ms": self.base_ms, "effective_next_renewal_at_ms": self.until(step)}
        if step.get("named", True):
            body["event_id"] = f"{step['id']}-{self.tag}"
        own = "purchasely_one_time_purchase_id" if step.get("one_time") else "purchasely_subscription_id"
        body[own] = self.name(step["purchase"])
        if step.get("other"):
            side = "transferred_to_" if says == "transferred" else "transferred_from_"
            body[side + self.field(step["other"])] = self.name(step["other"])
        return body

    @staticmethod
    def field(holder: str) -> str:
        return "user_id" if holder.startswith("user:") else "anonymous_user_id"

    @staticmethod
    def purchasely_headers(body: bytes, _: dict) -> dict[str, str]:
        digest = hmac.new(TOKEN.encode(), b"1700000000" + body, hashlib.sha256).hexdigest()
        return {"X-PURCHASELY-TIMESTAMP": "1700000000", "X-PURCHASELY-REQUEST-SIGNATURE": digest}

    # MARK: Qonversion

    def qonversion(self, step: dict) -> dict:
        single = step.get("one_time")
        name = {"gain": "in_app_purchase" if single else "subscription_renewed",
                "loss": "subscription_expired",
                "revoked": "in_app_refunded" if single else "subscription_refunded"}.get(
                    step["says"], "subscription_canceled")
        until = self.until(step)
        return {
            "event_name": name, "user_id": self.name(step["holder"]),
            "identity_id": self.name(step["identity"]) if step.get("identity") else "", "custom_user_id": "",
            "created_at": self.ms(step["at"]) // 1000, "platform": "iOS",
            "product_id": step.get("product", "premium") or "",
            "environment": step.get("environment", "PRODUCTION").lower(),
            "transaction": {"transaction_id": self.name(step["purchase"]),
                            "original_transaction_id": self.name(step["purchase"]),
                            "expires": until // 1000 if until else None}}

    @staticmethod
    def qonversion_headers(_: bytes, __: dict) -> dict[str, str]:
        return {"Authorization": f"Basic {TOKEN}"}

    # MARK: Apphud

    def apphud(self, step: dict) -> dict:
        single, says = step.get("one_time"), step["says"]
        name = {"gain": "non_renewing_purchase" if single else "subscription_renewed", "loss": "subscription_expired",
                "revoked": "non_renewing_purchase_refunded" if single else "subscription_refunded"}.get(
                    says, "autorenew_disabled")
        environment = step.get("environment", "PRODUCTION").lower()
        status = {"loss": "expired", "revoked": "refunded"}.get(says, "regular")
        if step.get("past_period"):
            status = "regular"
        line = {"id": "line-" + self.name(step["purchase"]), "product_id": "premium", "status": status,
                "environment": environment, "store": "app_store",
                "original_transaction_id": self.name(step["purchase"])}
        if step.get("until") is not None:
            line["expires_at"] = iso(self.until(step))
        if single:
            # Another purchase of the same user: the only word on the environment that such a body has.
            line |= {"id": "line-other", "product_id": "other", "original_transaction_id": "other-" + self.tag}
        return {
            "app": {"uid": "1", "bundle_id": "com.example"},
            "event": {
                "id": f"{step['id']}-{self.tag}", "name": name, "created_at": iso(self.ms(step["at"])),
                "store": "app_store",
                "properties": {"product_id": "premium", "family_shared": step.get("family", False)},
                "receipt": {"transaction_id": self.name(step["purchase"]) + "-t",
                            "product_id": step.get("product", "premium"),
                            "original_transaction_id": self.name(step["purchase"])}},
            "user": {"user_id": self.name(step["holder"]), "subscriptions": [line],
                     "devices": [{"device_id": self.name(device)} for device in step.get("devices", [])]}}

    @staticmethod
    def apphud_headers(_: bytes, __: dict) -> dict[str, str]:
        return {"X-Apphud-Token": TOKEN}

    # MARK: RevenueCat

    def customer(self, holder: str) -> str:
        return ("" if holder.startswith("user:") else RC_ANONYMOUS) + self.name(holder)

    def revenuecat(self, step: dict) -> dict:
        says, single = step["says"], step.get("one_time")
        event: dict[str, object] = {
            "id": f"{step['id']}-{self.tag}", "event_timestamp_ms": self.ms(step["at"]), "app_id": "a",
            "store": "APP_STORE", "environment": step.get("environment", "PRODUCTION")}
        if says == "move":
            event |= {"type": "TRANSFER", "transferred_from": [self.customer(holder) for holder in step["from"]],
                      "transferred_to": [self.customer(holder) for holder in step["to"]]}
            return {"event": event, "api_version": "1.0"}
        names = {"gain": "NON_RENEWING_PURCHASE" if single else "RENEWAL", "loss": "EXPIRATION",
                 "revoked": "CANCELLATION", "note": "PRODUCT_CHANGE"}
        ids = [self.customer(step["holder"]),
               *(self.customer("anon:" + anonymous) for anonymous, _ in step.get("links", []))]
        if step.get("seen_anonymous"):
            ids.reverse()
        event |= {
            "type": names[says], "app_user_id": ids[0], "original_app_user_id": ids[0], "aliases": ids[1:],
            "product_id": step.get("product", "premium"), "period_type": "NORMAL", "purchased_at_ms": self.base_ms,
            "expiration_at_ms": self.until(step), "transaction_id": self.name(step["purchase"]) + "-t",
            "original_transaction_id": self.name(step["purchase"]), "is_family_share": step.get("family", False)}
        if says == "revoked":
            event["cancel_reason"] = "CUSTOMER_SUPPORT"
        return {"event": event, "api_version": "1.0"}

    @staticmethod
    def revenuecat_headers(_: bytes, __: dict) -> dict[str, str]:
        return {"Authorization": TOKEN}

    # MARK: Adapty

    def profile(self, step: dict, holder: str) -> dict[str, str | None]:
        if holder.startswith("user:"):
            user = holder.partition(":")[2]
            profile = next((profile for profile, linked in step.get("links", []) if linked == user), "profile-" + user)
            return {"profile_id": self.name(profile), "customer_user_id": self.name(holder)}
        return {"profile_id": self.name(holder), "customer_user_id": None}

    def adapty(self, step: dict) -> dict:
        says, single = step["says"], step.get("one_time")
        name = {"gain": "non_subscription_purchase" if single else "subscription_renewed",
                "loss": "subscription_expired",
                "revoked": "non_subscription_purchase_refunded" if single else "subscription_refunded",
                "note": "subscription_renewal_cancelled"}[says]
        properties: dict[str, object] = {
            "store": "app_store", "environment": step.get("environment", "PRODUCTION").capitalize(),
            "profile_event_id": f"{step['id']}-{self.tag}", "vendor_product_id": step.get("product", "premium"),
            "transaction_id": self.name(step["purchase"]) + "-t",
            "original_transaction_id": self.name(step["purchase"])}
        if says == "revoked":
            properties["profile_has_access_level"] = step.get("past_period", False)
        if step.get("access_level"):
            name = "access_level_updated"
            properties |= {"is_active": says == "gain", "is_refund": says == "revoked"}
        if step.get("until") is not None:
            properties["subscription_expires_at"] = iso(self.until(step))
        at = iso(self.ms(step["at"])).replace("Z", "+0000")
        sharers = [self.profile(step, holder) for holder in step.get("sharers", [])]
        return self.profile(step, step["holder"]) | {
            "event_type": name, "event_datetime": at, "event_properties": properties, "event_api_version": 1,
            "profiles_sharing_access_level": sharers or None}

    @staticmethod
    def adapty_headers(_: bytes, __: dict) -> dict[str, str]:
        return {"Authorization": TOKEN}

    # MARK: Sessions

    def sessions(self, step: dict) -> dict:
        names = {"gain": "ACTIVATE", "loss": "DEACTIVATE", "revoked": "DEACTIVATE", "note": "PROFILE_OPENED",
                 "login": "SESSION_LOGIN", "expired": "SESSION_EXPIRED", "reset": "DATA_RESET",
                 "ended": "SESSION_LOGOUT", "end-sessions": "SESSION_LOGOUT",
                 "transferred": "SUBSCRIPTION_TRANSFERRED", "received": "SUBSCRIPTION_RECEIVED"}
        says = step["says"]
        data: dict[str, object] = {"event_id": f"{step['id']}-{self.tag}",
                                   "environment": step.get("environment", "PRODUCTION")}
        if step.get("user"):
            data["user_id"] = self.name(step["user"])
        if step.get("anonymous"):
            data["anonymous_id"] = self.name(step["anonymous"])
        if step.get("holder"):
            data[self.field(step["holder"])] = self.name(step["holder"])
        if step.get("purchase"):
            data |= {"purchase_id": self.name(step["purchase"]), "product": step.get("product", "premium"),
                     "store_transaction_id": self.name(step["purchase"]) + "-t",
                     "purchase_type": "NON_CONSUMABLE" if step.get("one_time") else "RENEWING_SUBSCRIPTION",
                     "status": "REVOKED" if says == "revoked" else "AUTO_RENEWING",
                     "is_family_shared": step.get("family", False), "effective_next_renewal_at_ms": self.until(step)}
        if step.get("other"):
            side = "transferred_to_" if says == "transferred" else "transferred_from_"
            data[side + self.field(step["other"])] = self.name(step["other"])
        return {"type": names[says], "timestamp": iso(self.ms(step["at"])), "data": data}

    @staticmethod
    def sessions_headers(body: bytes, step: dict) -> dict[str, str]:
        identifier = f"wh-{step['id']}"
        signed = f"{identifier}.1700000000.".encode() + body
        code = base64.b64encode(hmac.new(bytes(range(32)), signed, hashlib.sha256).digest()).decode()
        return {"webhook-id": identifier, "webhook-timestamp": "1700000000", "webhook-signature": f"v1,{code}"}
