"""The goals P1–P10 of RESULTS.md, and how the cost of an event grows, measured in one run against one PostgreSQL.
Started by deploy/bench, which installs what is needed."""

import argparse
import json
import pathlib
import time

import beside
import disk
import goals_backlog
import goals_delivery
import goals_ingest
import goals_latency
import goals_isolation
import growth
import import_load
import machine
import settings
from bench_context import Bench
from cluster import Cluster
from peer_growth import PEERS
from processes import Scratch
from program import run_as_program
from relay import Secrets
from report import Row, table
from traffic import Nginx, OneRow

GOALS = [f"P{number}" for number in range(1, 11)]
# Only where it is asked for: it fills a database with ten million events.
GROWTH = "growth"
# Only where it is asked for: it takes many minutes.
IMPORT = "import"
# Only where it is asked for: it is no goal.
SETTINGS = "settings"
# The same.
DISK = "disk"
# Seconds of load of one measurement.
SECONDS, QUICK_SECONDS = 10, 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="deploy/bench")
    parser.add_argument("goals", nargs="*", metavar="P1", help="goals to measure, all of them by default; or growth")
    parser.add_argument("--quick", action="store_true", help="short loads: to see that it works, not to believe it")
    parser.add_argument("--repetitions", type=int, default=3, help="of each ratio, its two sides in turn (3)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="where the figures go besides")
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--beside", type=pathlib.Path, metavar="FILE", help="another build, measured in turn")
    parser.add_argument("--sizes", type=sizes, metavar="1e3,1e5", help="events stored, of growth")
    parser.add_argument("--seconds", type=int, metavar="N", help="of a load of growth")
    parser.add_argument("--peers", type=peers, metavar="river,awa", help="of growth, these peers' queues alone")
    parser.add_argument("--python", type=pathlib.Path, required=True, help="the peer's")
    given = parser.parse_args()
    if (given.sizes or given.seconds is not None or given.peers) and GROWTH not in given.goals:
        parser.error(f"--sizes, --seconds and --peers are {GROWTH}'s")
    if given.beside and given.peers:
        parser.error("--beside is of this build, --peers leaves it out")
    if given.seconds is not None and given.seconds < 1:
        parser.error("at least one second")
    for goal in given.goals:
        if goal not in [*GOALS, GROWTH, IMPORT, SETTINGS, DISK]:
            parser.error(f"there is no goal {goal}: {', '.join(GOALS)}, {GROWTH}, {IMPORT}, {SETTINGS}, {DISK}")
    if given.repetitions < 1:
        parser.error("at least one repetition")
    return given


def sizes(text: str) -> list[int]:
    """Of `1e3,20000`; each name of a purchase has nine digits, and the peers' jobs come by the hundred."""
    numbers = [int(float(part)) for part in text.split(",")]
    if (numbers != sorted(set(numbers)) or not 0 < numbers[0] <= numbers[-1] < 10**9
            or any(number % 100 for number in numbers)):
        raise argparse.ArgumentTypeError(f"not sizes in hundreds, from small to large: {text}")
    return numbers


def peers(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(PEERS):
        raise argparse.ArgumentTypeError(f"not peers of {', '.join(PEERS)}: {text}")
    return names


def measure(bench: Bench, wanted: set[str]) -> list[Row]:
    single = {"P1": goals_ingest.p1, "P4": goals_ingest.p4, "P5": goals_latency.p5, "P6": goals_delivery.p6,
              "P7": goals_backlog.p7, "P8": goals_backlog.p8, "P9": goals_isolation.p9, "P10": goals_delivery.p10}
    rows: list[Row] = []
    for goal in GOALS:
        began = time.monotonic()
        if goal in wanted and goal in single:
            print(f"{goal}: {(single[goal].__doc__ or '').splitlines()[0]}", flush=True)
            rows += single[goal](bench)
        elif goal == "P2" and wanted & {"P2", "P3"}:
            print(f"P2, P3: {(goals_delivery.p2_p3.__doc__ or '').splitlines()[0]}", flush=True)
            rows += goals_delivery.p2_p3(bench, wanted)
        else:
            continue
        print(f"  ({time.monotonic() - began:.0f} s)", flush=True)
    if IMPORT in wanted:
        print(f"{IMPORT}: {(import_load.__doc__ or '').splitlines()[0]}", flush=True)
        rows += import_load.measure(bench)
    if SETTINGS in wanted:
        print(f"{SETTINGS}: {(settings.__doc__ or '').splitlines()[0]}", flush=True)
        rows += settings.measure(bench)
    if DISK in wanted:
        print(f"{DISK}: {(disk.__doc__ or '').splitlines()[0]}", flush=True)
        rows += disk.measure(bench)
    return rows


def main() -> int:
    given = arguments()
    checkout = pathlib.Path(__file__).resolve().parents[2]
    with Scratch() as scratch:
        cluster = Cluster(scratch)
        bench = Bench(scratch, cluster, Nginx(scratch), OneRow(cluster, scratch), Secrets(scratch),
                      given.binary.resolve(), given.python.absolute(), given.quick, given.repetitions,
                      QUICK_SECONDS if given.quick else SECONDS)
        about = machine.describe(scratch, cluster, bench.binary, checkout)
        print(machine.as_text(about), flush=True)
        if given.beside and GROWTH not in given.goals:
            rows = beside.beside(bench, given.beside.resolve())
        else:
            rows = measure(bench, set(given.goals or GOALS))
        grown = {}
        if GROWTH in given.goals:
            grown = growth.growth(bench, given.beside and given.beside.resolve(), given.sizes, given.seconds,
                                  given.peers)
    print()
    if rows:
        print(table(rows))
    print(machine.as_text(about))
    print("Medians, with the smallest and the largest; a ratio under 1.2 either way means nothing on a shared machine.")
    if given.quick:
        print("--quick: these figures show that everything works. They are too short to be believed.")
    if given.json:
        report = {"machine": about, "quick": given.quick, "repetitions": given.repetitions,
                  "load_seconds": bench.seconds, "goals": [row.as_json() for row in rows]}
        if grown:
            report[GROWTH] = grown
        given.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    run_as_program("bench", main)
