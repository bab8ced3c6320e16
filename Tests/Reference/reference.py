"""Who holds what, by the rules of the domain: slow and obvious. Nothing is kept from one question to the next; every
answer is computed anew from all that was ever stated.

A history is a list of steps (see histories.py), in order of arrival. Their order matters for one thing alone: what was
announced once stays announced."""

import collections
import dataclasses

MINUTE_MS = 60_000
# How long before its first loss a holder is taken to have had the purchase; how long a loss can still be followed up.
GRACE_MS = 60_000
# Sources whose purchases an install and its identity hold together.
SHARING = ("qonversion",)
# Sources whose logins move the subscriptions of the anonymous holder.
MERGING = ("merging",)


@dataclasses.dataclass(frozen=True)
class Fact:
    """What is known of one purchase at one time. `loser` has it no more, `winner` has it; a transfer names both."""

    at: int
    loser: str | None
    winner: str | None
    until: int | None
    revoked: bool = False
    family: bool = False
    # Which native announcements of a transfer stand behind it.
    native: tuple[str, ...] = ()
    key: int = 0

    @property
    def lasts(self) -> bool:
        return self.until is None or self.until >= self.at


@dataclasses.dataclass
class Tenure:
    """A run of one holder."""

    holder: str
    begin: int
    # Whether its first fact is a gain; whether any is.
    begins_granted: bool
    granted: bool
    until: int | None = None

    def reaches(self, at: int) -> bool:
        return self.until is None or self.until >= at


@dataclasses.dataclass
class Opinion:
    # By purchase and holder: whether it has access. Who never had a word said about it is absent.
    access: dict[tuple[str, str], bool]
    # By purchase, from and to: how many transfers there were.
    numbers: dict[tuple[str, str, str], int]
    # By scope and anonymous holder: the user, or None where a session ended.
    links: dict[tuple[str, str], str | None]


def order(holder: str) -> tuple[bool, bytes]:
    """At equal times anonymous holders come first, then ids by their bytes."""
    return holder.startswith("user:"), holder.encode()


# MARK: From steps to facts


def scope_of(step: dict) -> str:
    return f"{step['source']}/{step.get('environment', 'PRODUCTION')}"


def purchase_of(step: dict) -> str | None:
    return f"{scope_of(step)}/{step['purchase']}" if step.get("purchase") else None


def distinct(steps: list[dict]) -> list[dict]:
    """A webhook that comes again says nothing new."""
    seen, kept = set(), []
    for step in steps:
        if step["id"] not in seen:
            seen.add(step["id"])
            kept.append(step)
    return kept


def facts_of(step: dict) -> list[Fact]:
    """What a webhook states of its purchase."""
    says, holder, other = step["says"], step.get("holder"), step.get("other")
    common = {"at": step["at"], "until": step.get("until"), "family": step.get("family", False), "key": step["id"]}
    if says == "gain":
        # Those who share it by this event have it as a family does: beside its holder.
        shared = [Fact(**common | {"family": True}, loser=None, winner=sharer) for sharer in step.get("sharers", [])]
        together = [Fact(**common, loser=None, winner=second) for second in identity_of(step)]
        return [Fact(**common, loser=None, winner=holder), *together, *shared]
    if says in ("loss", "revoked"):
        common["revoked"] = says == "revoked"
        shared = [Fact(**common | {"family": True}, loser=sharer, winner=None) for sharer in step.get("sharers", [])]
        together = [Fact(**common, loser=second, winner=None) for second in identity_of(step)]
        return [Fact(**common, loser=holder, winner=None), *together, *shared]
    if says in ("transferred", "received") and other != holder:
        loser, winner = (holder, other) if says == "transferred" else (other, holder)
        return [Fact(**common, loser=loser, winner=winner, native=(says,) if other else ())]
    return []


def identity_of(step: dict) -> list[str]:
    """The second holder that the webhook of an install names."""
    return [step["identity"]] if step["source"] in SHARING and step.get("identity") else []


def is_one_time(steps: list[dict], purchase: str) -> bool:
    """A kind does not depend on which webhook came first: one that says so is enough."""
    return any(purchase_of(step) == purchase and step.get("one_time") for step in steps)


class World:
    """All that follows from a set of statements, whatever their order."""

    def __init__(self, steps: list[dict]):
        self.steps = distinct(steps)
        self.facts: dict[str, list[Fact]] = collections.defaultdict(list)
        for step in self.steps:
            if purchase_of(step):
                self.facts[purchase_of(step)] += facts_of(step)
        self.link_statements = self.all_link_statements()
        # What concerns holders as such applies in the order of event times: each finds what those before it made.
        for step in sorted(self.steps, key=lambda step: (step["at"], step["id"])):
            self.apply(step)

    def opinion(self) -> Opinion:
        access, numbers = {}, {}
        for purchase, facts in self.facts.items():
            told = self.shared(purchase) if self.is_shared(purchase) else self.exclusive(purchase, facts)
            access |= {(purchase, holder): value for holder, value in told[0].items()}
            numbers |= {(purchase, *pair): count for pair, count in told[1].items() if count}
        links = {key: self.linked_at(*key, None) for key in self.link_statements}
        return Opinion(access, numbers, links)

    def is_shared(self, purchase: str) -> bool:
        return purchase.split("/")[0] in SHARING

    # MARK: One holder at a time

    def exclusive(self, purchase: str, facts: list[Fact]) -> tuple[dict[str, bool], dict[tuple[str, str], int]]:
        is_single = is_one_time(self.steps, purchase)
        line = [] if is_single else tenures([fact for fact in facts if not fact.family])
        newest = next((tenure.holder for tenure in reversed(line) if tenure.granted), None)
        access = {
            holder: on and (is_single or family or holder == newest)
            for holder, (on, family) in registers(facts).items()}
        changes = collections.Counter(
            (old.holder, new.holder) for old, new in zip(line, line[1:])
            if new.begins_granted and old.reaches(new.begin))
        natives: dict[str, dict[tuple[str, str], set[int]]] = {
            name: collections.defaultdict(set) for name in ("transferred", "received")}
        for fact in facts:
            for name in fact.native:
                natives[name][fact.loser, fact.winner].add(fact.at)
        pairs = {*changes, *natives["transferred"], *natives["received"]}
        return access, {
            pair: max(changes[pair], *(len(natives[name][pair]) for name in ("transferred", "received")))
            for pair in pairs}

    # MARK: Together

    def shared(self, purchase: str) -> tuple[dict[str, bool], dict[tuple[str, str], int]]:
        """Nobody's having it takes it from another; only a restore does."""
        facts = self.facts[purchase]
        access = {holder: on for holder, (on, _) in registers(facts).items()}
        return access, collections.Counter(
            (fact.loser, fact.winner) for fact in facts if fact.loser and fact.winner)

    # MARK: Statements of holders as such

    def apply(self, step: dict) -> None:
        says, at, scope = step["says"], step["at"], scope_of(step)
        if says == "move":
            for loser in step["from"]:
                if loser not in step["to"]:
                    self.move(scope, loser, next((to for to in step["to"] if to.startswith("user:")), step["to"][0]),
                              at, ("transferred", "received"), step["id"])
        elif says in ("login", "identify") and step["source"] not in SHARING:
            if step["source"] in MERGING and step.get("anonymous"):
                self.move(scope, step["anonymous"], step["user"], at, (), step["id"])
        elif says == "identify" and self.is_first(step):
            for purchase in self.held_by(scope, step["anonymous"], at):
                self.facts[purchase].append(
                    Fact(at, None, step["user"], self.until(purchase, step["anonymous"], at), key=step["id"]))
        elif says == "restore":
            self.restore(step)

    def move(self, scope: str, loser: str, winner: str, at: int, native: tuple[str, ...], key: int) -> None:
        for purchase in self.held_by(scope, loser, at):
            until = self.until(purchase, loser, at)
            # I3: by the relay's own rule one-time purchases never move; and what is over is not moved.
            if native or (not is_one_time(self.steps, purchase) and (until is None or until >= at)):
                self.facts[purchase].append(Fact(at, loser, winner, until, native=native, key=key))

    def is_first(self, step: dict) -> bool:
        """The first identify ever of an identity; a webhook that names it with an install says that there was one."""
        return not any(
            scope_of(other) == scope_of(step) and other["at"] < step["at"] and (
                (other["says"] == "identify" and other["user"] == step["user"])
                or (other.get("identity") == step["user"]))
            for other in self.steps)

    def restore(self, step: dict) -> None:
        scope, at = scope_of(step), step["at"]
        user = self.linked_at(scope, step["anonymous"], at)
        targets = [step["anonymous"]] + ([f"user:{user}"] if user else [])
        for name in step["purchases"]:
            purchase = f"{scope}/{name}"
            holders = self.holders_at(purchase, at)
            if not holders:
                continue
            until = max((self.until(purchase, holder, at) or 1 << 62 for holder in holders))
            until = None if until == 1 << 62 else until
            losers = [holder for holder in holders if holder not in targets] if step["strategy"] == "transfer" else []
            for loser in losers:
                self.facts[purchase].append(Fact(at, loser, None, until, key=step["id"]))
            for target in targets:
                self.facts[purchase].append(Fact(at, None, target, until, key=step["id"]))

    # MARK: At a time

    def before(self, purchase: str, at: int) -> list[Fact]:
        return [fact for fact in self.facts[purchase] if fact.at <= at]

    def holders_at(self, purchase: str, at: int) -> list[str]:
        facts = self.before(purchase, at)
        if self.is_shared(purchase):
            return [holder for holder, (on, _) in registers(facts).items() if on]
        return [holder for holder, on in self.exclusive(purchase, facts)[0].items() if on]

    def held_by(self, scope: str, holder: str, at: int) -> list[str]:
        return [purchase for purchase in list(self.facts)
                if purchase.startswith(scope + "/") and holder in self.holders_at(purchase, at)]

    def until(self, purchase: str, holder: str, at: int) -> int | None:
        """The end that the newest gain of this holder names."""
        gains = [fact for fact in self.before(purchase, at) if fact.winner == holder]
        return max(gains, key=lambda fact: fact.at).until

    # MARK: Links

    def all_link_statements(self) -> dict[tuple[str, str], list[tuple[int, str | None]]]:
        found: dict[tuple[str, str], list[tuple[int, str | None]]] = collections.defaultdict(list)
        for step in sorted(self.steps, key=lambda step: step["at"]):
            scope, says = scope_of(step), step["says"]
            for anonymous, user in step.get("links", []):
                found[scope, anonymous].append((step["at"], user))
            if says == "end-sessions":
                for (other, anonymous), said in list(found.items()):
                    if other == scope and said[-1][1] == step["user"].partition(":")[2]:
                        said.append((step["at"], None))
        return found

    def linked_at(self, scope: str, anonymous: str, at: int | None) -> str | None:
        said = [user for time, user in self.link_statements.get((scope, anonymous), []) if at is None or time <= at]
        return said[-1] if said else None


def registers(facts: list[Fact]) -> dict[str, tuple[bool, bool]]:
    """By holder: whether it is on, and as of a family-shared event. The newest statement wins; at one time a loss."""
    said: dict[str, tuple[int, bool, bool, bool]] = {}
    for fact in facts:
        statements = [(fact.loser, False)] if fact.loser else []
        # A transfer gives only what still lasts.
        if fact.winner and (not fact.loser or fact.lasts):
            statements.append((fact.winner, True))
        for holder, on in statements:
            said[holder] = max(said.get(holder, (-(1 << 62), False, False, False)),
                               (fact.at, not on, on, fact.family))
    return {holder: (on, family) for holder, (_, _, on, family) in said.items()}


def tenures(facts: list[Fact]) -> list[Tenure]:
    gains = [(fact.at, fact.winner, fact.until) for fact in facts if fact.winner]
    losses = [(fact.at, fact.loser, fact.until, fact.revoked) for fact in facts if fact.loser]
    starts = [(at, holder, True) for at, holder, _ in gains]
    for holder in {holder for _, holder, _, _ in losses}:
        first_loss, _, _, revoked = min(loss for loss in ((at, h, u or 1 << 62, r) for at, h, u, r in losses)
                                        if loss[1] == holder)
        first_gain = min((at for at, winner, _ in gains if winner == holder), default=None)
        if not revoked and (first_gain is None or first_loss < first_gain):
            starts.append((first_loss - GRACE_MS, holder, False))
    line: list[Tenure] = []
    for at, holder, granted in sorted(starts, key=lambda start: (start[0], order(start[1]), start[2])):
        if line and line[-1].holder == holder:
            line[-1].granted |= granted
        else:
            line.append(Tenure(holder, at, granted, granted))
    for number, tenure in enumerate(line):
        end = next((later.begin for later in line[number + 1:] if later.holder == tenure.holder), 1 << 62)
        mine = [(at, 0, until) for at, holder, until in gains if holder == tenure.holder and tenure.begin <= at < end]
        for at, holder, until, revoked in losses:
            if holder == tenure.holder and tenure.begin <= at < end:
                later = max(until or at, at + GRACE_MS)
                mine.append((at, 1, at - 1 if revoked else later))
        tenure.until = max(mine, key=lambda fact: (fact[0], fact[1]))[2]
    return line


# MARK: What was announced


@dataclasses.dataclass
class Announced:
    # By purchase, from and to.
    told: collections.Counter
    void: collections.Counter
    # Steps (by id) after which the rules say that a transfer stands which the facts no longer show, with its reason.
    exceptions: list[str]


def announced(steps: list[dict]) -> Announced:
    """Replays the arrivals: what was announced stays, and a number that falls leaves a void behind."""
    result = Announced(collections.Counter(), collections.Counter(), [])
    for count in range(1, len(steps) + 1):
        if steps[count - 1]["id"] in {step["id"] for step in steps[:count - 1]}:
            continue
        numbers = World(steps[:count]).opinion().numbers
        for pair in sorted({*numbers, *result.told}):
            number = numbers.get(pair, 0)
            if number + result.void[pair] > result.told[pair]:
                result.told[pair] = number + result.void[pair]
            elif number + result.void[pair] < result.told[pair]:
                result.void[pair] = result.told[pair] - number
                result.exceptions.append(reason(steps[count - 1]))
    return result


def reason(step: dict) -> str:
    return "a REVOKED that came late" if step["says"] == "revoked" else "a fact that came late between two holders"
