"""A ledger that an older version filled, upgraded behind the socket. What takes as long as the ledger is large goes on
beside the load, and the daemon is killed in each of its steps (Sources/Ledger/Schema, Sources/Ledger/Periods). What was
stored before must be unchanged, column for column, and be found."""

import asyncio
import dataclasses
import json
import math
import pathlib
import shutil
import subprocess
import time
import types

from bed import Bed, Plan
from bench_context import Bench
from cluster import Session
from clones import RUN, TEMPLATE, Template, fill
from database import DATABASE
from processes import BenchError, Scratch
from relay import healthy
from traffic import Nginx

# Of the load before the upgrade and after it, for the comparison of acknowledgements.
QUIET_S = 30
# A daemon that was killed is started anew, and takes over what the one before had under way.
RESTARTED_S = 10
# For one step, the pause of a daemon that finds the step before still going on included (a minute).
STEP_S = 3_600
# How often PostgreSQL is asked what it does.
LOOK_S = 0.003
# Stored purchases whose traces are read before the steps and after them.
TRACES = 20
# Tables with what a webhook leaves, and which of their rows were there before (`before` is the newest event's id).
THEIRS = "purchase IN (SELECT id FROM purchases WHERE key LIKE 'subs\\_{run}%')"
STORED = {
    "events": "id <= {before}", "messages": "event <= {before}",
    "attempts": "message IN (SELECT id FROM messages WHERE event <= {before})", "identities": "event <= {before}",
    "purchases": "key LIKE 'subs\\_{run}%'", "transactions": THEIRS, "entitlements": THEIRS}
PLAN = Plan(per_second=100, keep_alive=False, unsettled_max=20_000,
            postgres={"max_wal_size": "8GB", "shared_buffers": "1GB"})


@dataclasses.dataclass(frozen=True)
class Step:
    what: str
    # A regular expression: statements that do it.
    statement: str
    # SQL: whether it is over.
    is_over: str


def built(index: str) -> Step:
    return Step(f"building {index}", f"CREATE.* INDEX CONCURRENTLY {index} ",
                f"EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('{index}') AND indisvalid)")


def dropped(index: str) -> Step:
    return Step(f"dropping {index}", f"DROP INDEX CONCURRENTLY {index}$", f"to_regclass('{index}') IS NULL")


def proven(table: str) -> Step:
    return Step(f"the proof that ids of {table} are below the first period",
                f"ALTER TABLE {table} VALIDATE CONSTRAINT",
                f"(SELECT relkind = 'p' FROM pg_class WHERE oid = '{table}'::regclass) OR EXISTS "
                f"(SELECT FROM pg_constraint WHERE conrelid = '{table}'::regclass AND conname = 'below_periods' "
                "AND convalidated)")


# As the daemon takes them, from a ledger before `M0008_flat`.
STEPS = [
    *map(built, ("events_stray", "events_without_purchase", "purchases_hash", "identities_key", "messages_own_key",
                 "holder_changes_aged", "deliveries_of_purchase", "deliveries_without_purchase")),
    *map(dropped, ("events_holder", "events_transaction")),
    Step("keys by time", "ALTER TABLE identities DROP CONSTRAINT",
         "NOT EXISTS (SELECT FROM pg_constraint WHERE conname = 'identities_pkey')"),
    proven("events"), proven("messages"),
    Step("the switch to periods", "PARTITION BY RANGE",
         "(SELECT relkind = 'p' FROM pg_class WHERE oid = 'messages'::regclass)"),
]


def why_not(_: Scratch, __: pathlib.Path) -> str | None:
    missing = [tool for tool in ("wrk", "nginx") if not shutil.which(tool)]
    return f"there is no {' and no '.join(missing)}" if missing else None


async def fill_older(bed: Bed) -> None:
    """Before anything is started: the older version records and delivers one event, SQL clones it (Tests/Load)."""
    bed.daemon.keep_socket()
    began = time.monotonic()
    # What clones.py needs of the bench; its secrets are the torture's.
    secrets = types.SimpleNamespace(source=bed.secrets.source_file, integration=bed.secrets.integration_file)
    nginx = Nginx(bed.scratch)
    bench = Bench(bed.scratch, bed.server, nginx, None, secrets, bed.older, None, False, 1, 1)
    template = await asyncio.to_thread(Template, bench, DATABASE, healthy(nginx, len(bed.receivers)))
    nginx.process.stop()

    def clone() -> None:
        with bed.server.session(DATABASE) as session:
            fill(template, session, bed.stored)
            bed.first_event = int(session.number("SELECT max(id) FROM events"))
            bed.audited_since = session.ask(
                """SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')""")
            # What the fill has left to write is no part of what is measured.
            session.ask("CHECKPOINT")

    await asyncio.to_thread(clone)
    bed.notes.append(f"{bed.stored:,} events made in {time.monotonic() - began:.0f} s")
    bed.daemon.binary = bed.older


async def upgrade(bed: Bed) -> None:
    """an older version's ledger upgraded behind the socket under load, killed in each step (--older PATH)"""
    before = await asyncio.to_thread(sums, bed)
    async with bed.load():
        alone = await quiet(bed)
        await replace(bed)
        reading = asyncio.create_task(read_traces(bed))
        await asyncio.to_thread(age, bed)
        preparing = await killed_in_each_step(bed)
        traces = await reading
        took = await finish(bed)
        after = await quiet(bed)
    bed.notes.append(f"the steps took {took:.0f} s in the end")
    undisturbed = [(min(start + RESTARTED_S, end), end) for start, end in preparing]
    for when, windows in (("older version", alone), ("beside the steps", preparing),
                          (f"the same from {RESTARTED_S} s after each start on", undisturbed), ("after them", after)):
        bed.notes.append(f"acknowledgement, {when}: {percentiles(bed, windows)}")
    for answer, count in bed.sender.answers.items():
        if answer not in ("200", "cut"):
            bed.findings.add(f"webhooks that were {answer}", count)
    if bed.sender.overdue:
        bed.findings.add("webhooks that were not answered in time", bed.sender.overdue)
    compare(bed, "stored rows", before, await asyncio.to_thread(sums, bed))
    compare(bed, "traces", traces, await read_traces(bed))


async def quiet(bed: Bed) -> list[tuple[float, float]]:
    began = time.monotonic()
    await asyncio.sleep(QUIET_S)
    return [(began, time.monotonic())]


async def replace(bed: Bed) -> None:
    """The older daemon by this one."""
    if (code := await bed.daemon.stop()) != 0:
        bed.findings.add("the older daemon did not end in order", code)
    bed.daemon.binary = bed.binary
    bed.daemon.start()
    await bed.daemon.ready()


def age(bed: Bed) -> None:
    """What must lock whole tables waits for an hour after the upgrade (SwitchGate.delay)."""
    with bed.server.session(DATABASE) as session:
        session.ask("UPDATE schema_migrations SET applied_at = applied_at - interval '2 hours'")


async def killed_in_each_step(bed: Bed) -> list[tuple[float, float]]:
    """Returns when the daemon was at its steps, from a start to a kill."""
    windows = []
    for step in STEPS:
        began = time.monotonic()
        ended = await kill(bed, step)
        windows.append((began, ended))
    return windows


async def kill(bed: Bed, step: Step) -> float:
    """kill -9 in the step, and a new start. Returns when it was seen; a step that is over before is noted."""
    is_seen = await asyncio.to_thread(seen, bed, step)
    ended = time.monotonic()
    if not is_seen:
        bed.notes.append(f"{step.what}: over before it could be seen")
        return ended
    with bed.breaking(f"kill -9 at {step.what}") as fault:
        bed.daemon.kill()
        await bed.note_in_flight(fault)
        await bed.rest(0, 0.5)
        bed.daemon.start()
        await bed.daemon.ready()
    return ended


def seen(bed: Bed, step: Step) -> bool:
    """Asked in another database: a transaction of this one would hold up what is to be seen."""
    with bed.server.session("postgres") as observer, bed.server.session(DATABASE) as session:
        deadline, looks = time.monotonic() + STEP_S, 0
        while time.monotonic() < deadline:
            if is_under_way(observer, step):
                return True
            if looks % 50 == 0 and session.ask(f"SELECT {step.is_over}") == "t":
                return False
            looks += 1
            time.sleep(LOOK_S)
    raise BenchError(f"{step.what}: not within {STEP_S} s")


def is_under_way(observer: Session, step: Step) -> bool:
    return observer.ask("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'posthouse' AND state = 'active' "
                        f"AND query ~ '{step.statement}')") == "t"


async def finish(bed: Bed) -> float:
    """Waits until nothing is left to do, and says how long that took."""
    began = time.monotonic()
    while time.monotonic() - began < STEP_S:
        if json.loads(await asyncio.to_thread(said, bed, "migrate", "--json"))["indexes"] == "done":
            return time.monotonic() - began
        await asyncio.sleep(5)
    raise BenchError(f"steps of the upgrade are left after {STEP_S} s")


def said(bed: Bed, *arguments: str) -> str:
    done = subprocess.run([str(bed.binary), *arguments, "--config", str(bed.daemon.file)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"posthouse {' '.join(arguments)}: {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


async def read_traces(bed: Bed) -> dict[str, str]:
    """Of purchases and holders all over what was stored."""
    traces = {}
    for number in sorted({TEMPLATE + 1 + (bed.stored - TEMPLATE - 1) * part // TRACES for part in range(TRACES)}):
        name = f"{RUN}0{number:09d}"
        for handle in (("--transaction", name), ("--user", f"user_{name}")):
            traces[" ".join(handle)] = await asyncio.to_thread(said, bed, "trace", "--json", *handle)
    return traces


def sums(bed: Bed) -> dict[str, str]:
    """Of each column of the stored rows, how many there are and a sum over their values."""
    result = {}
    with bed.server.session(DATABASE) as session:
        for table, rows in STORED.items():
            columns = session.ask("SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped "
                                  f"AND attgenerated = '' AND attrelid = '{table}'::regclass ORDER BY 1").splitlines()
            values = session.ask(
                "SELECT count(*), " + ", ".join(f"coalesce(sum(hashtext({column}::text)), 0)" for column in columns)
                + f" FROM {table} WHERE {rows.format(before=bed.first_event, run=RUN)}").split("|")
            result |= {f"{table}.{name}": value for name, value in zip(["(rows)", *columns], values)}
    return result


def compare(bed: Bed, what: str, before: dict[str, str], after: dict[str, str]) -> None:
    """A later version may have further ones."""
    for name, value in before.items():
        if name not in after:
            bed.notes.append(f"{what}: {name} is not there any more")
        elif after[name] != value:
            bed.findings.add(f"{what} that are not what they were", f"{name}: {value[:200]}, now {after[name][:200]}")


def percentiles(bed: Bed, windows: list[tuple[float, float]]) -> str:
    took = sorted(seconds for began, seconds in bed.sender.took
                  if any(start <= began < end for start, end in windows))
    if not took:
        return "none"
    p50, p99 = (1_000 * took[min(len(took) - 1, math.ceil(len(took) * part) - 1)] for part in (0.5, 0.99))
    return f"{p50:.1f} ms median, {p99:.1f} ms p99, {1_000 * took[-1]:.0f} ms at most, of {len(took):,}"
