"""What a hundred million events a day need: the table of RESULTS.md, from the figures of deploy/bench growth."""

import argparse
import itertools
import json
import math
import pathlib

FIGURES = pathlib.Path(__file__).resolve().parent / "figures/growth.json"
EVENTS_A_DAY, SECONDS_OF_DAY = 100_000_000, 86_400
# Of a second of the peak over one of the average: renewals cluster by the hour.
PEAK = 5
FAN_OUT = 3
DAYS_KEPT = 30
# With fewer events stored, a database is mostly what an empty one is.
LEAST_STORED = 100_000
STEADY, AFTER_CHECKPOINT = "steady", "after a checkpoint"
HEAD = ["build", "events stored", "memory", "daemons at the peak", "PostgreSQL at the peak", "machines for the peak",
        "disk a day", f"for {DAYS_KEPT} days", "log a day, steady", "just after checkpoints"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", type=pathlib.Path, nargs="?", default=FIGURES)
    report = json.loads(parser.parse_args().figures.read_text())
    machine = report["machine"]
    print(f"{EVENTS_A_DAY:,} events a day, {EVENTS_A_DAY / SECONDS_OF_DAY:,.0f} a second, {peak():,.0f} at the peak, "
          f"{FAN_OUT} integrations. A machine is the one measured: {machine['cores']} cores, which the load shares, "
          f"{machine['memory_gb']} GB.\n")
    for cells in [HEAD, ["---"] * len(HEAD), *rows(report["growth"]["stored"])]:
        print("| " + " | ".join(cells) + " |")


def rows(points: list[dict]) -> list[list[str]]:
    """One for each build, size and memory; of the steady state, where it was measured."""
    def key(point: dict) -> tuple:
        return point["build"], point["size"], point["memory_limit"] or math.inf
    large = sorted((point for point in points if point["size"] >= LEAST_STORED), key=key)
    return [row({point["when"]: point for point in group}) for _, group in itertools.groupby(large, key)]


def row(by_time: dict[str, dict]) -> list[str]:
    point = by_time.get(STEADY) or by_time[AFTER_CHECKPOINT]
    event_bytes = point["filled_bytes"] / point["size"]
    limit = point["memory_limit"]
    log = [f"{by_time[when]['wal_bytes'] * EVENTS_A_DAY / 1e12:.1f} TB" if when in by_time else "not measured"
           for when in (STEADY, AFTER_CHECKPOINT)]
    return [point["build"], f"{point['size']:,}", f"{limit / 1e9:.1f} GB" if limit else "all",
            f"{peak() * point['daemon_us'] / 1e6:.1f} cores", f"{peak() * point['postgresql_us'] / 1e6:.1f} cores",
            str(math.ceil(peak() / (point["per_second"] / FAN_OUT))),
            f"{event_bytes * EVENTS_A_DAY / 1e9:,.0f} GB",
            f"{event_bytes * EVENTS_A_DAY * DAYS_KEPT / 1e12:.1f} TB", *log]


def peak() -> float:
    """Events a second."""
    return PEAK * EVENTS_A_DAY / SECONDS_OF_DAY


if __name__ == "__main__":
    main()
