"""What a setting costs: the same build with it and without it in turn, as a ratio of one run."""

import collections.abc
import dataclasses

from beside import AIM
from bench_context import Bench
from goals_delivery import DATABASE, FAN_OUT
from goals_ingest import acknowledged_per_second
from relay import healthy
from report import Row


@dataclasses.dataclass
class Setting:
    what: str
    # TOML lines of the tables of the same names; `{url}` is the database's, `{scratch}` a folder.
    database: str = ""
    source: str = ""
    tables: str = ""
    integration: dict[str, str] = dataclasses.field(default_factory=dict)

    def of(self, bench: Bench) -> Bench:
        tables = self.tables.format(scratch=bench.scratch.path)
        return dataclasses.replace(bench, extra={"database": self.database, "source": self.source, "tables": tables})


# Straight to PostgreSQL, so that it is the daemon's cost alone and not the pooler's.
SETTINGS = [
    Setting('pooling = "transaction"', database='schema = "public"\npooling = "transaction"\ndirect_url = "{url}"'),
    Setting("spool = true", source="spool = true", tables='[spool]\ndirectory = "{scratch}/spool"'),
    Setting('include = ["access"]', integration={"include": '["access"]'}),
]


def acknowledged(bench: Bench, integration: dict[str, str]) -> float:
    """As P1, with receivers where the setting is theirs: then the deliveries compete for the machine."""
    integrations = healthy(bench.nginx, FAN_OUT, **integration) if integration else []
    return acknowledged_per_second(bench, bench.cluster.fresh_database(DATABASE), integrations)


def settled(bench: Bench, integration: dict[str, str]) -> float:
    integrations = healthy(bench.nginx, FAN_OUT, **integration)
    with bench.relay(bench.cluster.fresh_database(DATABASE), integrations):
        return bench.deliver(DATABASE).per_second


FIGURES: list[tuple[str, str, collections.abc.Callable[[Bench, dict[str, str]], float]]] = [
    ("P1", "events acknowledged, 256 connections", acknowledged),
    ("P2", f"deliveries settled, fan-out {FAN_OUT}", settled),
]


def measure(bench: Bench) -> list[Row]:
    """Whether the one with the setting is measured first changes from one repetition to the next."""
    rows = []
    for setting in SETTINGS:
        # An integration that asks for nothing is what one that asks is held against.
        plain = {"events": '["*"]'} if setting.integration else {}
        for goal, what, figure in FIGURES:
            print(f"{goal} with {setting.what}", flush=True)
            with_it: list[float] = []
            without: list[float] = []
            sides = [(setting.of(bench), setting.integration, with_it), (bench, plain, without)]
            for repetition in range(bench.repetitions):
                for side, integration, values in sides[:: 1 if repetition % 2 == 0 else -1]:
                    values.append(figure(side, integration))
                bench.note(f"{with_it[-1]:,.0f}/s, without it {without[-1]:,.0f}/s")
            rows.append(Row(goal, f"{what}, with {setting.what}", "/s", with_it, AIM, "without it", without))
    return rows
