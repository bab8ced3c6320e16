"""Random histories from a seed: few holders, devices and purchases, so that they collide; every kind of source."""

import random

# What a history may draw beyond the plain; `run --leave-out NAME` leaves one out.
FEATURES = ("family", "one-time", "kinds", "natives", "revoked", "sharers", "apphud-environment", "sessions-identify",
            "identity-webhooks", "restores", "ties", "expired", "late-moves", "products",
            "years", "erasures", "login-natives", "plans")
# Of these, what is known to differ today: not drawn unless it is asked for.
KNOWN = {
    "identity-webhooks": "the first identify ignores what webhooks said",
    "restores": "restores depend on the order of arrival",
}
LINE = list(range(-90, 0)) + list(range(120, 210))


class Histories:
    def __init__(self, seed: str, without: frozenset[str] = frozenset()):
        self.rng, self.without = random.Random(seed), without
        self.shapes = {"purchasely": 6, "qonversion": 5, "apphud": 1, "revenuecat": 4, "adapty": 2, "merging": 4,
                       "apart": 1, "single": 2}

    def has(self, feature: str, share: float) -> bool:
        drawn = self.rng.random() < share
        return drawn and feature not in self.without

    def next(self) -> list[dict]:
        """API calls, which happen now, are among them."""
        if self.has("years", 0.04):
            return self.years()
        self.source = self.rng.choices(list(self.shapes), list(self.shapes.values()))[0]
        self.environment = self.rng.choice(["PRODUCTION"] * 3 + ["SANDBOX"])
        if self.source == "apphud" and "apphud-environment" in self.without:
            self.environment = "PRODUCTION"
        self.made = 0
        self.anonymous = [f"anon:a{n}" for n in range(1, self.rng.randint(1, 3) + 1)]
        self.users = [f"user:u{n}" for n in range(1, self.rng.randint(1, 3) + 1)]
        self.purchases = [f"p{n}" for n in range(1, self.rng.choice((1, 1, 1, 2, 3)) + 1)]
        self.one_time = {name for name in self.purchases if self.has("one-time", 0.15)}
        self.times = sorted(self.rng.sample(LINE, 60))
        steps = [step for _ in range(self.rng.randint(2, 9)) for step in self.some()]
        if not steps:
            # All that was drawn is left out.
            return self.next()
        if self.source == "purchasely" and self.has("erasures", 0.15):
            steps += [self.step("erase", user=self.rng.choice(self.users)) for _ in range(self.rng.choice((1, 2)))]
        return self.with_environments(steps)

    def years(self) -> list[dict]:
        """One purchase over years: renewals, and holders that change; more than is kept of it."""
        self.source, self.environment, self.made, self.one_time = "purchasely", "PRODUCTION", 0, set()
        self.anonymous, self.users, self.purchases = ["anon:a1", "anon:a2"], ["user:u1", "user:u2"], ["p1"]
        steps, holder, at = [], "anon:a1", -3000
        while len(steps) < self.rng.randint(40, 110):
            at += self.rng.choice((1, 7, 30, 30, 30))
            if self.rng.random() < 0.25:
                old, holder = holder, self.holder()
                if self.rng.random() < 0.5 and old != holder:
                    steps.append(self.webhook("loss", at, old, "p1") | {"until": at + 20})
            steps.append(self.webhook("gain", at, holder, "p1") | {"until": at + 35, "family": False})
        return [step | {"days": True, "environment": self.environment, "named": True} for step in steps]

    def with_environments(self, steps: list[dict]) -> list[dict]:
        for step in steps:
            step["environment"] = self.environment
        if self.rng.random() < 0.1 and self.source not in ("qonversion", "single", "apphud"):
            # I4: the same in another environment touches nothing.
            other = {"PRODUCTION": "SANDBOX", "SANDBOX": "PRODUCTION"}[self.environment]
            for step in self.rng.sample(steps, min(2, len(steps))):
                step["environment"] = other
        return steps

    # MARK: Steps

    def some(self) -> list[dict]:
        if self.source in ("qonversion", "single"):
            return self.of_installs()
        if self.source in ("merging", "apart") and self.rng.random() < 0.45:
            return self.of_session()
        if self.source == "revenuecat" and self.rng.random() < 0.25:
            return [self.transfer_of_all()]
        may_be_native = self.source == "purchasely" or self.source == "merging" and "login-natives" not in self.without
        if may_be_native and self.has("natives", 0.3):
            return self.native()
        if self.has("ties", 0.2):
            return self.login()
        return [self.webhook()]

    def step(self, says: str, at: int | None = None, **fields: object) -> dict:
        self.made += 1
        if at is None:
            at = self.times.pop(self.rng.randrange(len(self.times)))
        return {"id": self.made, "source": self.source, "says": says, "at": at} | fields

    def until(self, at: int) -> int | None:
        """Mostly long after all; now and then a period that ends within the history, or has no end."""
        drawn = self.rng.random()
        if drawn < 0.7 or "expired" in self.without:
            return 10_000
        return None if drawn < 0.8 else at + self.rng.randint(1, 100)

    def holder(self) -> str:
        return self.rng.choice(self.users if self.source == "apphud" else self.anonymous + self.users)

    def some_holders(self) -> list[str]:
        return self.rng.sample(self.anonymous + self.users, self.rng.choice((1, 1, 1, 2)) if
                               len(self.anonymous + self.users) > 1 else 1)

    def says(self) -> str:
        says = self.rng.choices(("gain", "loss", "revoked", "note"), (6, 3, 1, 1))[0]
        return "loss" if says == "revoked" and "revoked" in self.without else says

    def webhook(self, says: str | None = None, at: int | None = None, holder: str | None = None,
                purchase: str | None = None) -> dict:
        says, purchase = says or self.says(), purchase or self.rng.choice(self.purchases)
        step = self.step(says, at, holder=holder or self.holder(), purchase=purchase)
        step["until"] = step["at"] if says == "loss" and self.rng.random() < 0.5 else self.until(step["at"])
        step["one_time"] = purchase in self.one_time
        if self.source != "apphud" and self.has("products", 0.2):
            step["product"] = self.rng.choice(("basic", None))
        return self.finished(step)

    def finished(self, step: dict) -> dict:
        """What one kind of source alone says, or spells its own way."""
        source, says = self.source, step["says"]
        if step["one_time"]:
            if source in ("qonversion", "single", "apphud", "revenuecat", "adapty"):
                # They know of no end of such a purchase but its refund, and say nothing else of it.
                step["says"] = says = {"loss": "revoked", "note": "gain"}.get(says, says)
                step["until"] = None
            if source == "adapty" and self.has("kinds", 0.3):
                # Says neither that it is a one-time purchase nor that it is none.
                step |= {"access_level": True, "one_time": False}
        elif source in ("revenuecat", "qonversion", "single") and says != "note" and step["until"] is None:
            step["until"] = 10_000
        if source in ("purchasely", "apphud", "revenuecat", "merging", "apart") and self.has("family", 0.08):
            step["family"] = True
        if source == "adapty" and says in ("gain", "loss") and self.has("sharers", 0.15):
            others = [holder for holder in self.anonymous + self.users if holder != step["holder"]]
            step["sharers"] = others[:1]
        if source == "adapty":
            step["links"] = [[f"profile-{holder.partition(':')[2]}", holder.partition(":")[2]]
                             for holder in [step["holder"], *step.get("sharers", [])] if holder.startswith("user:")]
            if step["holder"].startswith("user:") and self.rng.random() < 0.3:
                # The app set the user of a profile that was anonymous before.
                step["links"][0][0] = self.rng.choice(self.anonymous).partition(":")[2]
        if source == "revenuecat" and says == "revoked" and not step["one_time"] and self.rng.random() < 0.5:
            # The refund ends it; otherwise it was refunded without being cancelled.
            step["until"] = step["at"]
        if source == "revenuecat" and step["holder"].startswith("user:") and self.rng.random() < 0.3:
            step["links"] = [[self.rng.choice(self.anonymous).partition(":")[2], step["holder"].partition(":")[2]]]
            # The id last seen is then the anonymous one, but the customer is the user.
            step["seen_anonymous"] = self.rng.random() < 0.5
        if source == "purchasely":
            step["named"] = self.rng.random() < 0.7
            if self.has("plans", 0.4):
                step["plan"] = "yearly"
        return step

    def login(self) -> list[dict]:
        """As Purchasely's own sample has it: the old side's end and the new side's begin at one time."""
        old, new, purchase = self.holder(), self.holder(), self.rng.choice(self.purchases)
        if old == new:
            return [self.webhook()]
        loss = self.webhook("loss", holder=old, purchase=purchase)
        if not loss["one_time"]:
            loss["until"] = 10_000
        gain = self.webhook("gain", at=loss["at"], holder=new, purchase=purchase)
        return [loss, gain]

    def native(self) -> list[dict]:
        old, new, purchase = self.holder(), self.holder(), self.rng.choice(self.purchases)
        sides = self.rng.choice((["transferred"], ["received"], ["transferred", "received"]))
        both, at = self.rng.random() < 0.85, None
        steps = []
        for side in sides:
            holder, other = (old, new) if side == "transferred" else (new, old)
            step = self.webhook(side, at, holder, purchase)
            step["other"], step["until"] = other if both else None, 10_000
            step["family"] = False
            at = step["at"]
            steps.append(step)
        return steps

    def transfer_of_all(self) -> dict:
        losers, winners = self.some_holders(), self.some_holders()
        user = next((holder.partition(":")[2] for holder in winners if holder.startswith("user:")), None)
        links = [[holder.partition(":")[2], user] for holder in winners if user and holder.startswith("anon:")]
        return self.step("move", **{"from": losers, "to": winners, "links": links})

    # MARK: Sessions

    def of_session(self) -> list[dict]:
        anonymous, user = self.rng.choice(self.anonymous), self.rng.choice(self.users)
        bare = anonymous.partition(":")[2]
        drawn = self.rng.choices(("login", "ended", "expired", "reset", "end-sessions", "identify", "logout"),
                                 (6, 1, 1, 1, 1, 2, 1))[0]
        if drawn == "login":
            return [self.step("login", anonymous=anonymous, user=user, links=[[bare, user.partition(":")[2]]])]
        if drawn == "end-sessions":
            return [self.step(drawn, user=user)]
        if drawn in ("identify", "logout"):
            return self.called(drawn, anonymous, user) if "sessions-identify" not in self.without else []
        return [self.step(drawn, anonymous=anonymous, links=[[bare, None]])]

    def called(self, says: str, anonymous: str, user: str) -> list[dict]:
        bare = anonymous.partition(":")[2]
        self.made += 1
        call = {"id": self.made, "source": self.source, "says": says, "at": 0, "anonymous": anonymous, "call": True}
        if says == "identify":
            return [call | {"user": user, "links": [[bare, user.partition(":")[2]]]}]
        return [call | {"links": [[bare, None]]}]

    # MARK: Installs and identities

    def of_installs(self) -> list[dict]:
        install, user = self.rng.choice(self.anonymous), self.rng.choice(self.users)
        drawn = self.rng.choices(("webhook", "identify", "logout", "restore"), (5, 3, 1, 3))[0]
        if drawn == "restore" and self.has("restores", 1):
            call = self.called("logout", install, user)[0]
            names = self.rng.sample(self.purchases, self.rng.randint(1, len(self.purchases)))
            strategies = ("transfer", "copy") if self.source == "qonversion" else ("transfer",)
            return [call | {"says": "restore", "links": [], "purchases": names,
                            "strategy": self.rng.choice(strategies)}]
        if drawn in ("identify", "logout"):
            return self.called(drawn, install, user)
        step = self.webhook(holder=install)
        if self.has("identity-webhooks", 0.3):
            step |= {"identity": user, "links": [[install.partition(":")[2], user.partition(":")[2]]]}
        return [step]


def arrival(rng: random.Random, steps: list[dict], without: frozenset[str] = frozenset()) -> list[dict]:
    """A random order, with repetitions. Calls stay in their own order, for their time is when they happen; nothing
    comes before it happened, so what is later than they are comes after them."""
    if steps[0].get("days"):
        # A webhook may be late by as long as its source retries.
        return sorted(steps, key=lambda step: step["at"] + rng.choice((0, 0, rng.uniform(0, 20))))
    once = [step for step in steps if step.get("call") or step["says"] == "erase"]
    mixed = once + [step for step in steps if step not in once for _ in range(rng.choice((1, 1, 1, 1, 2)))]
    rng.shuffle(mixed)
    calls = iter([step for step in steps if step.get("call")])
    mixed = [next(calls) if step.get("call") else step for step in mixed]
    moves = any(step["says"] in ("move", "login", "identify") for step in steps)
    if moves and "late-moves" in without:
        return sorted(mixed, key=lambda step: (step["at"], step["id"]))
    if any(step.get("call") for step in mixed):
        mixed = [step for step in mixed if step["at"] <= 0] + [step for step in mixed if step["at"] > 0]
    return mixed
