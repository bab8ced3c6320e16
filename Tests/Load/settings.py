"""What a setting costs: the same build with it and without it in turn, as a ratio of one run."""

import dataclasses
import functools

from bench_context import Bench
from beside import AIM, FIGURES, in_turn
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
# Without P10, whose order is a setting itself.
PLAIN_FIGURES = FIGURES[:2]


def measure(bench: Bench) -> list[Row]:
    rows = []
    for setting in SETTINGS:
        # An integration that asks for nothing is what one that asks is held against.
        plain = {"events": '["*"]'} if setting.integration else {}
        for goal, what, figure in PLAIN_FIGURES:
            print(f"{goal} with {setting.what}", flush=True)
            with_it, without = in_turn(
                bench, functools.partial(figure, setting.of(bench), **setting.integration),
                functools.partial(figure, bench, **plain), "without it")
            rows.append(Row(goal, f"{what}, with {setting.what}", "/s", with_it, AIM, "without it", without))
    return rows
