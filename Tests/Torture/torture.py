"""Breaks whatever the relay depends on, and looks from outside whether its promises hold. Started by deploy/torture,
which installs and builds what is needed."""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import pathlib
import sys
import time

import hot
import machines
from bed import Bed, Variant
from machines import own_network
from processes import Scratch
from program import run_as_program
from scenarios import IN_TURN, LONG, SCENARIOS, SHORT, Scenario, play

WARNINGS_SHOWN = 8
# Enough that most steps of an upgrade take long enough to be killed in.
STORED = 1_000_000


@dataclasses.dataclass
class Result:
    scenario: str
    seed: int
    # Why it did not run: neither passed nor failed.
    skipped: str = ""
    seconds: float = 0
    tried: dict[str, int] = dataclasses.field(default_factory=dict)
    acknowledged: int = 0
    answers: dict[str, int] = dataclasses.field(default_factory=dict)
    messages: int = 0
    duplicates: list[str] = dataclasses.field(default_factory=list)
    drained_after_s: float = 0
    findings: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    warnings: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return "skipped" if self.skipped else "FAILED" if self.findings else "held"

    def row(self) -> list[str]:
        tried = self.skipped or ", ".join(f"{what} ×{count}" for what, count in self.tried.items())
        return [self.scenario, str(self.seed), self.verdict, str(self.acknowledged),
                str(sum(count for answer, count in self.answers.items() if answer != "200")), str(self.messages),
                str(len(self.duplicates)), f"{self.drained_after_s:.1f} s", tried]


HEAD = ["scenario", "seed", "", "acknowledged", "refusals", "deliveries", "twice", "drained", "tried"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="deploy/torture")
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help="all but the long ones by default")
    parser.add_argument("--seed", type=int, help="of the first run; drawn and shown by default")
    parser.add_argument("--runs", type=int, default=1, help="of each scenario, each with the next seed (1)")
    parser.add_argument("--minutes", type=float, help="how long each run's faults last")
    parser.add_argument("--short", action="store_true", help="a minute and a half, as deploy/test has it")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="where the results go besides")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR",
                        help="where the logs go of runs that found something, or a duplicate")
    parser.add_argument("--schema", default="", help="the daemons' role owns only this schema")
    parser.add_argument("--tls", action="store_true", help="the daemons reach PostgreSQL by TLS, verified in full")
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--older", type=pathlib.Path, metavar="PATH", help="of upgrade: the version before")
    parser.add_argument("--stored", type=int, default=STORED, metavar="N", help="of upgrade: events stored by it")
    parser.add_argument("--list", action="store_true", help="the scenarios")
    given = parser.parse_args()
    names = [scenario.name for scenario in SCENARIOS]
    names += ["hot", *(f"hot-{dimension.name}" for dimension in hot.DIMENSIONS)]
    for name in given.scenarios:
        if name not in names:
            parser.error(f"there is no scenario {name}: {', '.join(names)}")
    if not given.list and given.binary is None:
        parser.error("--binary is needed")
    return given


def chosen(given: argparse.Namespace, seed: int) -> list[Scenario]:
    if given.scenarios:
        return [scenario for scenario in SCENARIOS if scenario.name in given.scenarios]
    if given.short:
        names = [*SHORT, IN_TURN[seed % len(IN_TURN)]]
        return [scenario for scenario in SCENARIOS if scenario.name in names]
    return [scenario for scenario in SCENARIOS if scenario.name not in LONG]


def run(scenario: Scenario, seed: int, given: argparse.Namespace) -> Result:
    plan = scenario.plan
    if given.minutes:
        plan = dataclasses.replace(plan, seconds=given.minutes * 60)
    elif given.short and scenario.name in SHORT:
        plan = dataclasses.replace(plan, seconds=SHORT[scenario.name])
    began = time.monotonic()
    with Scratch("torture") as scratch:
        binary = given.binary.resolve()
        if reason := scenario.why_not(scratch, binary) or why_no_variant(scenario, given):
            return Result(scenario.name, seed, skipped=reason)
        with own_network(scenario.network) if scenario.network or given.tls else contextlib.nullcontext():
            bed = Bed(scratch, binary, scenario.name, seed, plan, scenario.postgres_environment(scratch),
                      Variant(given.schema, given.tls), given.older and given.older.resolve(), given.stored)
            asyncio.run(play(scenario, bed))
        result = Result(
            scenario.name, seed, seconds=round(time.monotonic() - began, 1), tried=dict(bed.tried),
            acknowledged=len(bed.sender.acknowledged), answers=dict(bed.sender.answers),
            messages=sum(len(receiver.messages) for receiver in bed.receivers), duplicates=bed.duplicates,
            drained_after_s=bed.took_to_drain, findings=bed.findings.lines(), notes=bed.notes,
            warnings=dict(bed.warnings().most_common()))
        if (result.findings or result.duplicates) and given.keep:
            kept = given.keep / f"{scenario.name}-{seed}"
            kept.mkdir(parents=True, exist_ok=True)
            for log in scratch.path.glob("*.log"):
                (kept / log.name).write_bytes(log.read_bytes())
    return result


def why_no_variant(scenario: Scenario, given: argparse.Namespace) -> str | None:
    """Why the database cannot be as it is asked for there; None: it can."""
    if scenario.needs_older and (given.older is None or given.schema or given.tls):
        return "it needs --older PATH, and neither --schema nor --tls"
    if (given.schema or given.tls) and (scenario.plan.make_server or scenario.plan.has_standby):
        return "--schema and --tls are of one PostgreSQL"
    if given.tls and scenario.plan.has_pooler:
        return "the pooler has its own way to PostgreSQL"
    return machines.why_not() if given.tls else None


def show(result: Result) -> None:
    print(f"{result.scenario}, seed {result.seed}: {result.verdict} ({result.seconds:.0f} s)", flush=True)
    for finding in result.findings:
        print(f"  FOUND {finding}")
    for note in result.notes:
        print(f"  {note}")
    for text, count in list(result.warnings.items())[:WARNINGS_SHOWN]:
        print(f"  warned ×{count}: {text}")
    sys.stdout.flush()


def hot_dimensions(given: argparse.Namespace) -> list[str] | None:
    """Those asked for, none for all; None: not asked for."""
    asked = [name for name in given.scenarios if name.partition("-")[0] == "hot"]
    if not asked:
        return None
    return [] if "hot" in asked else [name.removeprefix("hot-") for name in asked]


def table(head: list[str], results: list) -> str:
    lines = [head, *(result.row() for result in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)] + [0]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def main() -> int:
    given = arguments()
    if given.list:
        for scenario in SCENARIOS:
            print(f"{scenario.name:20} {scenario.what}")
        for dimension in hot.DIMENSIONS:
            print(f"hot-{dimension.name:16} {dimension.what}: what the last costs, and how large a purchase's state is")
        return 0
    first = given.seed if given.seed is not None else time.time_ns() % 1_000_000
    results = []
    scenarios = chosen(given, first)
    if scenarios:
        # One that is cut off says nothing any more. With its name, this seed and --short, if so, it is played again.
        print(f"torture{' --short' if given.short else ''}, seed {first}: "
              + ", ".join(scenario.name for scenario in scenarios), flush=True)
    for scenario in scenarios:
        for seed in range(first, first + given.runs):
            results.append(run(scenario, seed, given))
            show(results[-1])
    dimensions = hot_dimensions(given)
    hot_results = [] if dimensions is None else asyncio.run(hot.run_all(
        given.binary.resolve(), dimensions, hot.COUNT_SHORT if given.short else hot.COUNT))
    for head, rows in ((HEAD, results), (hot.HEAD, hot_results)):
        if rows:
            print(f"\n{table(head, rows)}")
    results += hot_results
    if given.json:
        given.json.write_text(json.dumps(
            [dataclasses.asdict(result) | {"verdict": result.verdict} for result in results], indent=2,
            ensure_ascii=False) + "\n")
    counts = {verdict: sum(result.verdict == verdict for result in results)
              for verdict in ("held", "FAILED", "skipped")}
    print(f"{counts['held']} passed, {counts['FAILED']} failed"
          + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    return 1 if counts["FAILED"] or not counts["held"] else 0


if __name__ == "__main__":
    run_as_program("torture", main)
