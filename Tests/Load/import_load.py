"""An import of a million lines beside webhooks, killed three times and begun again: each purchase is there once, no
receiver is told of a line, every webhook is acknowledged, and the 99th percentile of that is shown beside its own
without an import."""

import dataclasses
import json
import pathlib
import statistics
import threading
import time

from bench_context import Bench
from cluster import Session
from processes import BenchError, Process
from relay import Mark, healthy, settled_since
from report import Row
from traffic import Sent

DATABASE = "import"
LINES, QUICK_LINES = 1_000_000, 20_000
KILLS = 3
FAN_OUT = 3
# As of P5: about 500 events a second, so that it is the import that makes the machine busy.
CONNECTIONS, MEAN_PAUSE_MS = 64, 122
# Of one load; one follows the other until the import has ended.
LOAD_S = 5
# How long the import may take, kills included.
PATIENCE_S = 3_600


@dataclasses.dataclass
class Imported:
    """What the importing thread came to."""

    seconds: float = 0
    failure: str = ""


def measure(bench: Bench) -> list[Row]:
    lines = QUICK_LINES if bench.is_quick else LINES
    file = write_lines(bench.scratch.path / "lines", lines)
    with (bench.relay(bench.cluster.fresh_database(DATABASE), healthy(bench.nginx, FAN_OUT)) as relay,
          bench.cluster.session(DATABASE) as session):
        bench.send(1, connections=8, mean_pause_ms=50)
        time.sleep(2)
        mark, received = Mark.of(session), bench.nginx.received()
        alone = [load(bench) for _ in range(bench.repetitions)]
        imported = Imported()
        thread = threading.Thread(target=import_all, args=(bench, relay.configuration, file, lines, imported))
        thread.start()
        beside = []
        while thread.is_alive():
            beside.append(load(bench))
        thread.join()
        if imported.failure:
            raise BenchError(imported.failure)
        check(session, lines)
        settle(bench, session, mark, received, alone + beside)
    file.unlink()
    rate = lines / imported.seconds
    bench.note(f"{lines} lines in {imported.seconds:.0f} s, {rate:.0f} lines/s, {KILLS} kills among them")
    return [
        Row("import", f"{lines} lines beside 500 events/s, killed {KILLS} times", "lines/s", [rate], "≥ 1000"),
        Row("import", "p99 of the acknowledgement beside it", "ms", [statistics.median(each.p99_ms for each in beside)],
            "≤ 2", "without an import", [statistics.median(each.p99_ms for each in alone)]),
    ]


def load(bench: Bench) -> Sent:
    return bench.send(LOAD_S, connections=CONNECTIONS, mean_pause_ms=MEAN_PAUSE_MS)


def write_lines(path: pathlib.Path, count: int) -> pathlib.Path:
    """One subscription each; every tenth holder is an anonymous one."""
    with open(path, "w", encoding="ascii") as file:
        for number in range(count):
            holder = "anonymous_user_id" if number % 10 == 0 else "user_id"
            json.dump({
                "source": "purchasely", "app": "com.example.import", "environment": "PRODUCTION",
                "holder": {holder: f"imported-{number}"}, "as_of": "2026-01-01T00:00:00Z",
                "until": "2099-01-01T00:00:00Z", "store": "APPLE_APP_STORE", "purchase": f"imported_{number}",
                "kind": "subscription", "product": "gold", "plan": "monthly", "transaction_id": f"8{number:09}",
                "original_transaction_id": f"8{number:09}"}, file, separators=(",", ":"))
            file.write("\n")
    return path


def import_all(bench: Bench, configuration: pathlib.Path, file: pathlib.Path, lines: int, imported: Imported) -> None:
    """Begins it as often as it was killed, and once more. It is killed about after each quarter of the lines."""
    began = time.monotonic()
    try:
        with bench.cluster.session(DATABASE) as session:
            for quarter in range(1, KILLS + 1):
                run = start(bench, configuration, file)
                while inserted(session) < lines * quarter / (KILLS + 1):
                    if not run.is_running() or time.monotonic() - began > PATIENCE_S:
                        raise BenchError(f"the import ended early or takes too long:\n{run.last_words()}")
                    time.sleep(0.5)
                run.kill()
            run = start(bench, configuration, file)
            code = run.child.wait(max(1, PATIENCE_S - (time.monotonic() - began)))
            if code != 0:
                raise BenchError(f"the import ended with {code}:\n{run.last_words()}")
            run.stop()
    except Exception as error:  # Said by the thread that waits for this one.
        imported.failure = f"{error}"
    imported.seconds = time.monotonic() - began


def start(bench: Bench, configuration: pathlib.Path, file: pathlib.Path) -> Process:
    return Process(bench.scratch, "import",
                   [str(bench.binary), "import", "purchasely", str(file), "--config", str(configuration)])


def inserted(session: Session) -> float:
    """Purchases so far, the webhooks' among them: to count a million rows again and again would take from what is
    measured."""
    return session.number("SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'purchases'")


def check(session: Session, lines: int) -> None:
    """Each line once, in every table, and nobody told."""
    wanted = {
        "purchases": "SELECT count(*) FROM purchases WHERE app = 'com.example.import'",
        "different keys": "SELECT count(DISTINCT key) FROM purchases WHERE app = 'com.example.import'",
        "events": "SELECT count(*) FROM events WHERE name = 'posthouse.import'",
        "holders": "SELECT count(*) FROM entitlements WHERE active AND split_part(holder, ':', 2) LIKE 'imported-%'",
        "transactions": "SELECT count(*) FROM transactions WHERE store_transaction_id LIKE '8_________' "
                        "AND effective_next_renewal_at_ms = 4070908800000",
    }
    for what, question in wanted.items():
        found = session.number(question)
        if found != lines:
            raise BenchError(f"{lines} lines were imported, and there are {found:.0f} {what}")
    told = session.number("SELECT count(*) FROM messages m JOIN events e ON e.id = m.event "
                          "WHERE e.name = 'posthouse.import'")
    if told:
        raise BenchError(f"{told:.0f} messages were made of lines")


def settle(bench: Bench, session: Session, mark: Mark, received: int, loads: list[Sent]) -> None:
    """Every webhook that was acknowledged has reached every receiver, once."""
    acknowledged = sum(each.acknowledged for each in loads)
    # The lines are no events that a receiver is owed.
    session.ask("DELETE FROM events WHERE name = 'posthouse.import'")
    settled = settled_since(mark, session, bench.nginx, received, loads[-1], patience_s=600)
    if settled.events < acknowledged:
        raise BenchError(f"{acknowledged} webhooks were acknowledged, {settled.events} are stored")
