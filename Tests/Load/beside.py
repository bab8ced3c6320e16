"""Two builds of Posthouse beside each other: what a change costs or gains, as a ratio of figures measured in turn."""

import collections.abc
import dataclasses
import functools
import pathlib

from bench_context import Bench
from goals_delivery import DATABASE, EVENTS_OF_A_PURCHASE, FAN_OUT
from goals_ingest import acknowledged_per_second
from relay import healthy
from report import Row

# A ratio below this is worse than what repetitions of one build differ by.
AIM = "≥ 0.95"


def acknowledged(bench: Bench, **integration: str) -> float:
    """As P1; with receivers where they have settings, so that the deliveries compete for the machine."""
    integrations = healthy(bench.nginx, FAN_OUT, **integration) if integration else []
    return acknowledged_per_second(bench, bench.cluster.fresh_database(DATABASE), integrations)


def settled(bench: Bench, **integration: str) -> float:
    with bench.relay(bench.cluster.fresh_database(DATABASE), healthy(bench.nginx, FAN_OUT, **integration)):
        return bench.deliver(DATABASE).per_second


def settled_in_order(bench: Bench) -> float:
    integrations = healthy(bench.nginx, FAN_OUT, order='"purchase"')
    with bench.relay(bench.cluster.fresh_database(DATABASE), integrations):
        return bench.deliver(DATABASE, purchase_events=EVENTS_OF_A_PURCHASE).per_second


FIGURES: list[tuple[str, str, collections.abc.Callable[[Bench], float]]] = [
    ("P1", "events acknowledged, 256 connections", acknowledged),
    ("P2", f"deliveries settled, fan-out {FAN_OUT}", settled),
    ("P10", f'settled with order = "purchase", {EVENTS_OF_A_PURCHASE} events each', settled_in_order),
]


def in_turn(bench: Bench, ours: collections.abc.Callable[[], float], theirs: collections.abc.Callable[[], float],
            other: str) -> tuple[list[float], list[float]]:
    """Which of the two is measured first changes from one repetition to the next."""
    pairs: list[dict] = []
    for repetition in range(bench.repetitions):
        pairs.append({figure: figure() for figure in [ours, theirs][:: 1 if repetition % 2 == 0 else -1]})
        bench.note(f"{pairs[-1][ours]:,.0f}/s, {other} {pairs[-1][theirs]:,.0f}/s")
    return [pair[ours] for pair in pairs], [pair[theirs] for pair in pairs]


def beside(bench: Bench, other: pathlib.Path) -> list[Row]:
    before = dataclasses.replace(bench, binary=other)
    rows = []
    for goal, what, figure in FIGURES:
        print(f"{goal}: {what}, beside {other}", flush=True)
        ours, theirs = in_turn(bench, functools.partial(figure, bench), functools.partial(figure, before),
                               "the other build")
        rows.append(Row(goal, what, "/s", ours, AIM, "the other build", theirs))
    return rows
