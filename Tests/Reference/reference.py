"""Who holds what, by the rules of the domain: slow and obvious. Nothing is kept from one question to the next; every
answer is computed anew from all that was ever stated.

A history is a list of steps (see histories.py), in order of arrival. Their order matters for one thing alone: what was
announced once stays announced."""

import collections
import dataclasses
import math

MINUTE_MS = 60_000
# How long before its first loss a holder is taken to have had the purchase; how long a loss can still be followed up.
GRACE_MS = 60_000
# Sources whose purchases an install and its identity hold together.
SHARING = ("qonversion",)
# Sources whose logins move the subscriptions of the anonymous holder.
MERGING = ("merging", "single")


@dataclasses.dataclass(frozen=True)
class Fact:
    """What is known of one purchase at one time. `loser` has it no more, `winner` has it; a transfer names both."""

    at: int
    loser: str | None
    winner: str | None
    until: int | None
    revoked: bool = False
    family: bool = False
    # Which plan a gain begins or a loss ends.
    plan: str | None = None
    # Ends the access of another id of somebody, and says nothing of whether it had the purchase.
    ends_only: bool = False
    # Which native announcements of a transfer it has.
    native: tuple[str, ...] = ()
    key: int = 0
    # Of a purchase held together: it says who holds it, not whether it runs.
    restored: bool = False
    # Follows from a statement of holders as such, which other facts may show to have moved nothing.
    moved: bool = False
    # That statement is a restore: it does not say who the loser is.
    by_restore: bool = False

    @property
    def lasts(self) -> bool:
        return not self.revoked and (self.until is None or self.until > self.at)


@dataclasses.dataclass
class Tenure:
    """A run of one holder."""

    holder: str
    # When it is first known to have it.
    start: int
    # None: nothing says that it was ever given; it can hand over, never receive.
    first_gain: int | None


@dataclasses.dataclass
class Opinion:
    # By purchase and holder: whether it has access. Who never had a word said about it is absent.
    access: dict[tuple[str, str], bool]
    # By purchase, from and to: how many transfers there were, and when those took place that the tenures show.
    numbers: dict[tuple[str, str, str], int]
    changes: dict[tuple[str, str, str], list[int]]
    # What passed when, other than by a restore: time, purchase, from, to.
    passed: set[tuple[int, str, str, str]]
    # By purchase: what its newest webhook calls it that calls it anything.
    products: dict[str, str]


def order(holder: str) -> tuple[bool, bytes]:
    """At equal times anonymous holders come first, then ids by their bytes."""
    return holder.startswith("user:"), holder.encode()


def place(holder: str, at: int, facts: list[Fact]) -> tuple[int, float, tuple[bool, bytes]]:
    """Where having it at a time comes in order. At one time whoever first loses it within a minute is first: another
    has it after."""
    lost = first_loss(holder, at, facts)
    return at, math.inf if lost is None else lost, order(holder)


def first_loss(holder: str, at: int, facts: list[Fact]) -> int | None:
    """When the holder first loses it within the minute from a time on."""
    return min((fact.at for fact in facts if fact.loser == holder and 0 <= fact.at - at <= GRACE_MS), default=None)


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


# Less than anything that times differ by otherwise.
HAIR = 0.25


def facts_of(step: dict) -> list[Fact]:
    """What a webhook states of its purchase."""
    says, holder, other = step["says"], step.get("holder"), step.get("other")
    if step["source"] == "revenuecat" and says == "revoked" and (step.get("until") or step["at"]) > step["at"]:
        # Refunded without being cancelled: its period lasts.
        return []
    if step.get("past_period"):
        # What is refunded is a period before the one that is paid.
        return []
    if step["source"] not in SHARING and step.get("identity"):
        # One holder at a time: of an install that is logged in it is the identity.
        holder = step["identity"]
    # Whoever shares it by this event has it as a family does, its holder too: beside the others.
    is_shared = step.get("family", False) or bool(step.get("sharers"))
    # Adapty may date the end of a plan and the begin of the next alike: what begins is later.
    at = step["at"] - HAIR if is_adaptys_end(step) else step["at"]
    common = {"at": at, "until": step.get("until"), "family": is_shared, "key": step["id"]}
    if step["source"] == "purchasely" and says in ("gain", "loss", "revoked"):
        common["plan"] = step.get("plan", "monthly")
    if says == "gain":
        shared = [Fact(**common, loser=None, winner=sharer) for sharer in step.get("sharers", [])]
        together = [Fact(**common, loser=None, winner=second) for second in identity_of(step)]
        return [Fact(**common, loser=None, winner=holder), *together, *shared]
    if says in ("loss", "revoked"):
        common["revoked"] = says == "revoked"
        shared = [Fact(**common, loser=sharer, winner=None) for sharer in step.get("sharers", [])]
        together = [Fact(**common, loser=second, winner=None) for second in identity_of(step)]
        losers = [holder, *step.get("sharers", [])]
        aliases = [Fact(**common | {"family": False}, loser=alias, winner=None, ends_only=True)
                   for alias in aliases_of(step) if alias not in losers]
        return [Fact(**common, loser=holder, winner=None), *together, *shared, *aliases]
    if says in ("transferred", "received") and other != holder:
        loser, winner = (holder, other) if says == "transferred" else (other, holder)
        return [Fact(**common, loser=loser, winner=winner, native=(says,) if other else ())]
    return []


def is_adaptys_end(step: dict) -> bool:
    return step["source"] == "adapty" and step["says"] == "loss" and not step.get("access_level")


def aliases_of(step: dict) -> list[str]:
    """Other ids of the holder, who may have had the purchase by them before it was known whose they are."""
    if step.get("devices"):
        return [f"user:{device}" for device in step["devices"]] if step["says"] == "revoked" else []
    is_named = step["source"] in ("adapty", "single") or step.get("seen_anonymous")
    return [f"anon:{anonymous}" for anonymous, _ in step.get("links", [])] if is_named else []


def identity_of(step: dict) -> list[str]:
    """The second holder that the webhook of an install names."""
    return [step["identity"]] if step["source"] in SHARING and step.get("identity") else []


def named_at(step: dict) -> int:
    """As of when the product is the purchase's. A change of product or of the renewal names the one before it, and so
    does a refund of a past period or the end of a plan that was left: any other knows better."""
    is_before = step["source"] in ("revenuecat", "adapty") and step["says"] == "note" or step.get("past_period")
    is_before = is_before or is_adaptys_end(step)
    is_before = is_before or step["source"] == "purchasely" and step["says"] in ("loss", "revoked")
    return -(1 << 62) if is_before else step["at"]


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
        # What concerns holders as such applies in the order of event times: each finds what those before it made.
        for step in sorted(self.steps, key=lambda step: (step["at"], step["id"])):
            self.apply(step)

    def opinion(self) -> Opinion:
        opinion = Opinion({}, {}, {}, set(), {})
        for purchase, facts in self.facts.items():
            access, changes, natives = self.judged(purchase, facts)
            restored = {(fact.at, fact.winner) for fact in facts if fact.by_restore}
            opinion.access |= {(purchase, holder): on for holder, on in access.items()}
            for pair in {*changes, *natives}:
                opinion.changes[purchase, *pair] = changes.get(pair, [])
                opinion.numbers[purchase, *pair] = max(
                    len(changes.get(pair, [])), *(len(times) for times in natives.get(pair, {"": set()}).values()))
                # Who gets it by a restore is not who had it, whoever that was.
                changed = {at for at in opinion.changes[purchase, *pair] if (at, pair[1]) not in restored}
                times = changed.union(*natives.get(pair, {}).values())
                opinion.passed |= {(at, purchase, *pair) for at in times}
        # The newest that was named; at one time the greater.
        for step in sorted(self.steps, key=lambda step: (named_at(step), step.get("product", "premium") or "")):
            if step.get("purchase") and step.get("product", "premium"):
                opinion.products[purchase_of(step)] = step.get("product", "premium")
        return opinion

    def is_shared(self, purchase: str) -> bool:
        return purchase.split("/")[0] in SHARING

    def judged(self, purchase: str, facts: list[Fact]) -> tuple[dict, dict, dict]:
        """Access by holder; by pair of holders the times of its transfers, and those of its native announcements."""
        return self.together(facts) if self.is_shared(purchase) else self.exclusive(purchase, facts)

    # MARK: One holder at a time

    def exclusive(self, purchase: str, facts: list[Fact]) -> tuple[dict, dict, dict]:
        is_single = is_one_time(self.steps, purchase)
        stated_all = [] if is_single else [fact for fact in facts if not fact.family and not fact.ends_only]
        followed = [] if is_single else followed_of(facts)
        line = tenures(followed)
        newest = next((tenure.holder for tenure in reversed(line) if tenure.first_gain is not None), None)
        # The newest gain says it: a tenure that began ungranted may have been given since.
        access = {
            holder: (on or not family and has_changed_plan(holder, stated_all, facts))
            and (is_single or family or holder == newest)
            for holder, (on, family) in registers(facts).items()}
        changes: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
        for old, new in zip(line, line[1:]):
            start = new.first_gain
            if start is None:
                continue
            # Of two that have it from one time on, only the first loss within a minute says who was first. A login says
            # whom it moves; what it takes says nothing of a time before it.
            lost = first_loss(old.holder, start, followed)
            moves = [fact.at for fact in followed if fact.moved]
            is_after = old.start < start or start in moves or lost is not None and lost not in moves
            if is_after and reaches(old.holder, start, followed):
                changes[old.holder, new.holder].append(start)
        natives: dict[tuple[str, str], dict[str, set[int]]] = collections.defaultdict(
            lambda: collections.defaultdict(set))
        for fact in facts:
            pair = fact.loser, fact.winner
            # It is a transfer also where an ungranted tenure lies between the two.
            if fact.moved and fact.at not in changes[pair]:
                changes[pair].append(fact.at)
            for name in fact.native:
                natives[pair][name].add(fact.at)
        return access, {pair: sorted(times) for pair, times in changes.items()}, natives

    # MARK: Together

    def together(self, facts: list[Fact]) -> tuple[dict, dict, dict]:
        """Nobody's having it takes it from another; only a restore does. What ends is the purchase, for all at once."""
        changes: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
        for fact in facts:
            if fact.loser and fact.winner:
                changes[fact.loser, fact.winner].append(fact.at)
        return {holder: on and runs(facts) for holder, on in holders_together(facts).items()}, changes, {}

    # MARK: Statements of holders as such

    def apply(self, step: dict) -> None:
        says, at, scope = step["says"], step["at"], scope_of(step)
        if says == "move":
            for loser in step["from"]:
                if loser not in step["to"]:
                    self.move(scope, loser, next((to for to in step["to"] if to.startswith("user:")), step["to"][0]),
                              at, step["id"])
        elif says in ("login", "identify") and step["source"] not in SHARING:
            if step["source"] in MERGING and step.get("anonymous"):
                self.move(scope, step["anonymous"], step["user"], at, step["id"], is_login=True)
        elif says == "identify" and self.is_first(step):
            for purchase in self.held_by(scope, step["anonymous"], at):
                self.facts[purchase].append(
                    Fact(at, None, step["user"], None, key=step["id"], restored=True))
        elif says == "restore":
            self.restore(step)

    def move(self, scope: str, loser: str, winner: str, at: int, key: int, is_login: bool = False,
             restored: str | None = None) -> None:
        """I3: by the rule of a login no one-time purchase moves, and nothing that is over.

        `restored`: the purchase that it is about, by a restore; None: all that the loser has."""
        common = {"key": key, "moved": True, "by_restore": restored is not None}
        for purchase in [name for name in self.facts if name.startswith(scope + "/") and restored in (None, name)]:
            facts, is_single = self.before(purchase, at), is_one_time(self.steps, purchase)
            on, family = registers(facts).get(loser, (False, False))
            if is_single or family:
                if on and not is_login:
                    self.facts[purchase].append(Fact(at, loser, winner, None, family=family, **common))
                continue
            followed = followed_of(facts)
            # Of two that were given it at one time, what was lost within a minute says who was first, known or not.
            judging = followed_of(self.facts[purchase])
            newest = newest_gain([fact for fact in followed if fact.at < at or fact.winner == loser], judging)
            # Whose access has ended can still hand over while the period lasts that was paid for.
            periods = stated(loser, followed)
            until = known_until(periods)
            if until == 1 << 62 and periods[-1][1] and periods[-1][3] < at:
                # Paid for without a stated end: a loss that is no half of this ends it.
                until = periods[-1][3]
            if newest and newest.winner == loser and (not is_login or until >= at):
                until = None if until == 1 << 62 else until
                self.facts[purchase].append(Fact(at, loser, winner, until, **common))

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
            if purchase not in self.facts:
                continue
            known = self.before(purchase, at)
            if not self.is_shared(purchase):
                # One holder alone, so it can only be a transfer: from the last that it was given to. A one-time
                # purchase stays: all of these sources name the holder in a refund, and it would not reach another.
                followed = followed_of(known)
                newest = newest_gain([fact for fact in followed if fact.at < at], followed_of(self.facts[purchase]))
                if newest and newest.winner != targets[-1] and not is_one_time(self.steps, purchase):
                    self.move(scope, newest.winner, targets[-1], at, step["id"], restored=purchase)
                continue
            if step["strategy"] == "transfer":
                for holder, on in holders_together(known).items():
                    if on and holder not in targets:
                        # Nothing passes on of a purchase that has ended.
                        winner = targets[-1] if runs(known) else None
                        self.facts[purchase].append(Fact(at, holder, winner, None, key=step["id"], restored=True))
            for target in targets:
                self.facts[purchase].append(Fact(at, None, target, None, key=step["id"], restored=True))

    # MARK: At a time

    def before(self, purchase: str, at: int) -> list[Fact]:
        return [fact for fact in self.facts[purchase] if fact.at <= at]

    def holders_at(self, purchase: str, at: int) -> list[str]:
        return [holder for holder, on in holders_together(self.before(purchase, at)).items() if on]

    def held_by(self, scope: str, holder: str, at: int) -> list[str]:
        return [purchase for purchase in list(self.facts)
                if purchase.startswith(scope + "/") and holder in self.holders_at(purchase, at)]

    # MARK: Links

    def linked_at(self, scope: str, anonymous: str, at: int) -> str | None:
        """As of a time, by what names it."""
        said = links([(step, set()) for step in self.steps if step["at"] <= at])
        return said.get((scope, anonymous.partition(":")[2]))


def links(arrived: list[tuple[dict, set[tuple[int, str, str, str]]]]) -> dict[tuple[str, str], str | None]:
    """Who each anonymous holder is, by scope: the newest of what names it and, where one holder has a purchase at a time,
    of what passed from it to a user other than by a restore. The end of a user's sessions ends those that are known
    when it comes; one that comes later has an end of its own.

    `arrived`: each step, and what has passed as far as it shows."""
    found: dict[tuple[str, str], tuple[int, str | None]] = {}

    def say(scope: str, anonymous: str, at: int, user: str | None) -> None:
        # At one time an end holds; else, as with all ties, the ids decide.
        said = found.get((scope, anonymous), (-(1 << 62), ""))
        if (at, user is None, user or "") >= (said[0], said[1] is None, said[1] or ""):
            found[scope, anonymous] = (at, user)

    for step, passed in arrived:
        for anonymous, user in step.get("links", []):
            say(scope_of(step), anonymous, step["at"], user)
        if step["says"] == "end-sessions":
            for (scope, anonymous), (_, user) in list(found.items()):
                if scope == scope_of(step) and user == step["user"].partition(":")[2]:
                    say(scope, anonymous, step["at"], None)
        for at, purchase, old, new in passed:
            if old.startswith("anon:") and new.startswith("user:") and purchase.split("/")[0] not in SHARING:
                say(purchase.rpartition("/")[0], old.partition(":")[2], at, new.partition(":")[2])
    return {key: user for key, (_, user) in found.items()}


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


def holders_together(facts: list[Fact]) -> dict[str, bool]:
    """A webhook's end is the purchase's, not its holder's."""
    said = registers([fact for fact in facts if fact.winner or fact.restored])
    return {holder: on for holder, (on, _) in said.items()}


def runs(facts: list[Fact]) -> bool:
    """Whether the newest webhook of a purchase says so; at one time its end wins."""
    said = [(fact.at, not fact.winner, bool(fact.winner)) for fact in facts if not fact.restored]
    return max(said)[2] if said else True


# MARK: Tenures


def stated(holder: str, facts: list[Fact]) -> list[tuple[int, int, bool, int]]:
    """What is known of the holder's paid period, in order: time, loss or gain, revoked, its end."""
    found = []
    for fact in facts:
        until = 1 << 62 if fact.until is None else fact.until
        # Of what passes on, its status says nothing of the old holder's period.
        revoked = fact.revoked and not (fact.loser and fact.winner)
        if fact.winner == holder:
            found.append((fact.at, 0, revoked, fact.at - 1 if revoked else until))
        if fact.loser == holder:
            least = fact.at + GRACE_MS
            found.append((fact.at, 1, revoked, fact.at - 1 if revoked else max(fact.until or least, least)))
    return sorted(found, key=lambda one: (one[0], one[2], one[1]))


def known_until(periods: list[tuple[int, int, bool, int]]) -> int | None:
    """The latest end that was stated and not taken back by a REVOKED."""
    latest = None
    for _, _, revoked, until in periods:
        latest = until if revoked or latest is None else max(latest, until)
    return latest


def is_of_left_plan(loss: Fact, facts: list[Fact]) -> bool:
    """Whether a loss names another plan than its holder's newest gain by then, within the period that this one states:
    the holder left that plan for another one, and has the purchase still. What ends at the time of that gain is not
    the plan that it begins."""
    gains = [fact for fact in facts if fact.winner == loss.loser and fact.at <= loss.at]
    if not loss.loser or not gains:
        return False
    begun = max(fact.at for fact in gains)
    newest = [fact for fact in gains if fact.at == begun]
    left, ended = lost_plans(loss.loser, loss.at, facts), lost_plans(loss.loser, begun, facts)
    return (bool(left) and any(fact.plan and fact.plan not in left | ended for fact in newest)
            and all(fact.until is not None for fact in newest) and any(fact.until > loss.at for fact in newest))


def followed_of(facts: list[Fact]) -> list[Fact]:
    """What the tenures follow from."""
    found = [fact for fact in facts if not fact.family and not fact.ends_only]
    return [fact for fact in found if not is_of_left_plan(fact, found)]


def lost_plans(holder: str, at: int, facts: list[Fact]) -> set[str]:
    return {fact.plan for fact in facts if fact.loser == holder and fact.at == at and fact.plan}


def has_changed_plan(holder: str, facts: list[Fact], all_facts: list[Fact]) -> bool:
    """Whether what a holder lost since the newest gain were plans that it had left, and nothing was stated later."""
    begun = max((fact.at for fact in facts if fact.winner == holder), default=None)
    losses = [fact for fact in facts if fact.loser == holder and begun is not None and fact.at >= begun]
    newest = max(fact.at for fact in all_facts if holder in (fact.loser, fact.winner))
    return any(fact.at == newest for fact in losses) and all(is_of_left_plan(fact, facts) for fact in losses)


def newest_gain(among: list[Fact], facts: list[Fact]) -> Fact | None:
    gains = [fact for fact in among if fact.winner]
    return max(gains, key=lambda fact: place(fact.winner, fact.at, facts), default=None)


def reaches(holder: str, at: int, facts: list[Fact]) -> bool:
    """Whether the holder's period lasts to the next one's first gain. A loss counts up to a minute after that; what is
    said after it takes nothing back."""
    periods = stated(holder, facts)
    latest = known_until([one for one in periods if one[0] <= at])
    after = [until for time, loss, _, until in periods if loss and at < time <= at + GRACE_MS]
    return max([until for until in [latest, *after] if until is not None], default=at - 1) >= at


def tenures(facts: list[Fact]) -> list[Tenure]:
    """Runs of one holder among the times at which somebody is known to have it: each gain, and a minute before a loss
    that nothing known of its holder explains."""
    points = [(fact.at, fact.winner, True) for fact in facts if fact.winner]
    for holder in {fact.loser for fact in facts if fact.loser}:
        periods = stated(holder, facts)
        for index, (at, loss, revoked, _) in enumerate(periods):
            known = known_until(periods[:index])
            if loss and not revoked and (known is None or known < at - GRACE_MS):
                points.append((at - GRACE_MS, holder, False))
    line: list[Tenure] = []
    for at, holder, granted in sorted(points, key=lambda point: place(point[1], point[0], facts)):
        if not line or line[-1].holder != holder:
            line.append(Tenure(holder, at, None))
        if granted and line[-1].first_gain is None:
            line[-1].first_gain = at
    return line


# MARK: What was announced


@dataclasses.dataclass
class Announced:
    # By purchase, from and to: how many transfers were announced.
    counts: collections.Counter
    # When the transfers took place that were announced and are none by what is known now: shown again, they are the
    # same ones and not announced again.
    voided: dict[tuple[str, str, str], list[int | None]]
    # Why there are such, once for each.
    exceptions: list[str]
    # By scope and anonymous holder: the user, or None where a session ended.
    links: dict[tuple[str, str], str | None]


def announced(steps: list[dict]) -> Announced:
    """Replays the arrivals: what was announced stays."""
    result, before = Announced(collections.Counter(), collections.defaultdict(list), [], {}), World([]).opinion()
    arrived: list[tuple[dict, set[tuple[int, str, str, str]]]] = []
    for count in range(1, len(steps) + 1):
        if steps[count - 1]["id"] in {step["id"] for step in steps[:count - 1]}:
            continue
        after = World(steps[:count]).opinion()
        for pair in sorted({*after.numbers, *result.counts}):
            times = after.changes.get(pair, [])
            voided = [time for time in result.voided[pair] if time not in times]
            missing = result.counts[pair] - after.numbers.get(pair, 0) - len(voided)
            if missing > 0:
                gone = [time for time in before.changes.get(pair, []) if time not in times]
                voided += [*gone, *[None] * missing][-missing:] if len(gone) < missing else gone[-missing:]
                result.exceptions.append(reason(steps[count - 1]))
            result.voided[pair] = voided
            result.counts[pair] = max(result.counts[pair], after.numbers.get(pair, 0) + len(voided))
        before = after
        arrived.append((steps[count - 1], after.passed))
    # Once known it is known, even if it turns out that something else lay between.
    result.links = links(arrived)
    return result


def reason(step: dict) -> str:
    return "a REVOKED that came late" if step["says"] == "revoked" else "a fact that came late between two holders"


# MARK: Who was erased

GHOST = "anon:erased"


def ghost(holder: str) -> str:
    """Everybody who was erased has a stand-in of their own: two of them are two holders."""
    return f"{GHOST}-{holder}"


def erased(steps: list[dict], user: str) -> list[dict]:
    """What is left of a history when a user is erased with the anonymous ids that are known to be it: somebody without
    a name is in its place, and what was nobody else's is gone."""
    known = links([(step, World(steps[:count]).opinion().passed) for count, step in enumerate(steps, 1)])
    gone = {user} | {f"anon:{anonymous}" for (_, anonymous), name in known.items() if f"user:{name}" == user}
    named: dict[str | None, set[str]] = collections.defaultdict(set)
    steps = distinct(steps)
    for step in steps:
        named[purchase_of(step)] |= {step["holder"], step.get("other") or step["holder"]}
    def hidden(step: dict) -> dict:
        if named[purchase_of(step)] <= gone:
            # Known by its id alone: sent again it is still a duplicate.
            return step | {"says": "erased", "purchase": None, "holder": GHOST, "other": None}
        return step | {side: ghost(step[side]) for side in ("holder", "other") if step.get(side) in gone}

    return [hidden(step) for step in steps]
