"""Rows by the million, each as the daemon writes them, whatever the schema has become: a build records and delivers one
real event, and SQL clones the rows that this left, in every table that has some.

What differs from clone to clone is found by value, in whichever column it is: the purchase's name and the event's id in
the webhook, numbers of sequences, keys. A clone's purchase has the hash that the daemon computes for it, and its stored
state the right checksum, also where it is repeated beside the state, so that a webhook of that purchase finds it. Keys
that begin with a time do so in clones, too."""

import concurrent.futures
import dataclasses
import hashlib
import json
import math
import struct

from bench_context import Bench
from cluster import Session
from processes import BenchError
from relay import Integration

# webhooks.lua makes names of this, a thread's number and nine digits, and event ids likewise.
RUN = "5707edc10ae5"
# wrk asks for a first request, number 0, that it does not send.
TEMPLATE = 1
# More than all other numbers in the rows (milliseconds since 1970 are 1.8 · 10^12), and exact in floating point.
NUMBERS_OF_SEQUENCE = 10**13
# Events, and messages, of one period, and the periods before the one with all the rest: as many as stand in a year.
NUMBERS_OF_PERIOD, PERIODS = 200_000, 60
# Keys that begin with a time are below this, in their first eight digits (Sources/Vocabulary/Identifier.swift). The
# clones' times are before the template's, this many clones to one of them: some five events a second.
TIME_STEPS, CLONES_OF_A_STEP = 1 << 22, 5_000
# Before the template's time, more than all clones take.
STEPS_OF_CLONES = 1 << 14
# Of a purchase's hash, the parts that are the same in all webhooks (Sources/Ledger/Record/KeyHash).
PURCHASE_HASH_PARTS = ["purchase", "purchasely", "com.example.app", "PRODUCTION", "APPLE_APP_STORE"]
# Version and checksum: the first line of a purchase's stored state (Sources/Ledger/Transfers/PurchaseStateText).
STATE_LINE_BYTES = len("2\t0123456789abcdef\n")


@dataclasses.dataclass
class Part:
    """A value that differs from clone to clone. In SQL, `n` is the number of the clone."""

    template: str
    # SQL of a text: the clone's.
    sql: str
    is_key: bool = False

    def forms(self) -> dict[bytes, str]:
        """How it may be written, with SQL of a bytea for each."""
        forms = {self.template.encode(): f"convert_to({self.sql}, 'UTF8')"}
        if self.is_key:
            digits = self.template.replace("-", "")
            forms[digits.encode()] = f"convert_to(replace({self.sql}, '-', ''), 'UTF8')"
            forms[bytes.fromhex(digits)] = f"uuid_send(({self.sql})::uuid)"
        return forms


@dataclasses.dataclass
class Sequence:
    name: str
    # Its numbers are from here on, below `NUMBERS_OF_SEQUENCE` more.
    begin: int
    # The smallest in the template's rows, and how many they have from it on.
    lowest: int = 0
    used: int = 0
    # The first of those that clones get.
    start: int = 0

    def has(self, number: int) -> bool:
        return self.begin <= number < self.begin + NUMBERS_OF_SEQUENCE


class Template:
    """One real event, recorded by this build for these integrations: the only one in its database."""

    def __init__(self, bench: Bench, database: str, integrations: list[Integration]):
        # The first start makes the schema.
        with bench.relay(database, integrations):
            pass
        with bench.cluster.session(database) as session:
            self.sequences = spread_sequences(session)
        with bench.relay(database, integrations):
            # A second request would come after the end.
            bench.send(2, connections=1, pause_ms=1300, run=RUN)
        with bench.cluster.session(database) as session:
            self.read(session)

    def read(self, session: Session) -> None:
        name, event = f"{RUN}0{TEMPLATE:09d}", f"{RUN[:8]}-{RUN[8:]}-4000-8000-{TEMPLATE:012x}"
        self.types = column_types(session)
        rows = [(table, row) for table in self.types for row in rows_of(session, table, list(self.types[table]))]
        keys = {value for table, row in rows for column, value in row.items()
                if value and self.types[table][column] == "uuid"}
        purchase = purchase_hash(name)
        if purchase not in keys:
            raise BenchError("this build computes the hash of a purchase otherwise than clones.py does: no webhook "
                             "would find a clone")
        if "hash" in self.types["purchases"] and not any(int(key[:8], 16) < TIME_STEPS for key in keys):
            raise BenchError("this build did not write keys by time: the clones would be in the form before")
        self.parts = [Part(name, f"'{name[:-9]}' || lpad(n::text, 9, '0')"),
                      Part(event, f"'{event[:-12]}' || lpad(to_hex(n), 12, '0')", is_key=True)]
        self.parts += [Part(key, purchase_hash_sql(name) if key == purchase else key_sql(key), is_key=True)
                       for key in sorted(keys - {event})]
        states = [bytes.fromhex(row["state"].removeprefix("\\x")) for table, row in rows if table == "purchases"]
        # What is known of access names the state that it belongs to (Sources/Ledger/Record/KnownAccess).
        self.parts += [Part(checksum(state), sql) for state in states if (sql := self.checksum_sql(state))]
        for sequence in self.sequences:
            numbers = [int(value) for table, row in rows for column, value in row.items()
                       if value and self.types[table][column] == "bigint" and sequence.has(int(value))]
            if numbers:
                sequence.lowest, sequence.used = min(numbers), max(numbers) - min(numbers) + 1
        self.rows = [(table, row) for table, row in rows
                     if any(self.differing(self.types[table][column], value) for column, value in row.items() if value)]
        if [table for table, _ in self.rows].count("events") != 1:
            raise BenchError("one event was sent to be cloned, and there are more or none: is the machine too busy?")

    def tables(self) -> str:
        return ", ".join(dict.fromkeys(table for table, _ in self.rows))

    def clone(self, sessions: list[Session], first: int, count: int, changed: dict[str, dict[str, str]] | None = None,
              without: str = "") -> None:
        """The clones `first` to `first + count - 1`, a share of them by each session. `changed` is SQL by table and
        column; `without` is a table that gets none. Their numbers are higher than TEMPLATE."""
        for sequence in self.sequences:
            if sequence.used:
                numbers = sequence.used * count
                sequence.start = int(sessions[0].number(
                    f"SELECT setval('{sequence.name}', nextval('{sequence.name}') + {numbers}) - {numbers}"))
        clones = []
        for table, row in self.rows:
            if table != without:
                values = {column: self.value(self.types[table][column], value, first) for column, value in row.items()}
                values |= (changed or {}).get(table, {})
                clones.append(f"INSERT INTO {table} ({', '.join(values)}) OVERRIDING SYSTEM VALUE "
                              f"SELECT {', '.join(values.values())} FROM generate_series")
        share = math.ceil(count / len(sessions))
        together(sessions, [[f"{clone}({lowest}, {min(lowest + share, first + count) - 1}) n" for clone in clones]
                            for lowest in range(first, first + count, share)])

    def value(self, kind: str, value: str | None, first: int) -> str:
        if value is None:
            return "NULL"
        return self.differing(kind, value, first) or "'" + value.replace("'", "''") + f"'::{kind}"

    def differing(self, kind: str, value: str, first: int = 0) -> str | None:
        """SQL of the clone's value; None where it is the template's own."""
        if kind == "bytea":
            return self.differing_bytes(bytes.fromhex(value.removeprefix("\\x")))
        if kind == "bigint":
            for sequence in self.sequences:
                if sequence.has(int(value)):
                    return f"{sequence.start + int(value) - sequence.lowest} + {sequence.used}::bigint * (n - {first})"
        for part in self.parts:
            if value == part.template:
                return f"({part.sql})::{kind}"
        pieces = self.pieces(value.encode())
        return f"convert_from({pieces}, 'UTF8')::{kind}" if pieces else None

    def differing_bytes(self, value: bytes) -> str | None:
        if value[:STATE_LINE_BYTES] == f"2\t{checksum(value)}\n".encode():
            sql = self.checksum_sql(value)
            pieces = self.pieces(value[STATE_LINE_BYTES:])
            return sql and f"convert_to(E'2\\t' || {sql} || E'\\n', 'UTF8') || {pieces}"
        return self.pieces(value)

    def checksum_sql(self, state: bytes) -> str | None:
        """SQL of a text: the checksum of the clone's state; None where the state is the template's own."""
        pieces = self.pieces(state[STATE_LINE_BYTES:])
        return f"left(encode(sha256({pieces}), 'hex'), 16)" if pieces else None

    def pieces(self, value: bytes) -> str | None:
        """SQL of a bytea: the value with the clone's parts in place of the template's; None where it has none."""
        for part in self.parts:
            for form, sql in part.forms().items():
                before, found, after = value.partition(form)
                if found:
                    sides = [self.pieces(side) or bytes_sql(side) for side in (before, after)]
                    return f"{sides[0]} || {sql} || {sides[1]}"
        return None


def fill(template: Template, session: Session, size: int) -> None:
    """So many events, the template's among them."""
    with session.another() as second:
        for period, first in enumerate(range(TEMPLATE + 1, size + 1, NUMBERS_OF_PERIOD)):
            template.clone([session, second], first, min(NUMBERS_OF_PERIOD, size + 1 - first))
            # While it is in memory: to read all of them again takes as long as to make them.
            together([session, second], vacuums_of_period(session, period))
    session.ask("VACUUM (ANALYZE)")


def together(sessions: list[Session], statements: list[list[str]]) -> None:
    """Each session its statements, one after the other."""
    def ask(session: Session, own: list[str]) -> None:
        for statement in own:
            session.ask(statement)

    with concurrent.futures.ThreadPoolExecutor(len(sessions)) as threads:
        for _ in threads.map(ask, sessions, statements):
            pass


def checksum(state: bytes) -> str:
    """Of the lines of a stored state, as its first line has it."""
    return hashlib.sha256(state[STATE_LINE_BYTES:]).hexdigest()[:16]


def spread_sequences(session: Session) -> list[Sequence]:
    """Gives each sequence a range of its own, so that a number in a row says which one it is of."""
    names = session.ask("SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema() "
                        "AND data_type = 'bigint'::regtype ORDER BY 1").splitlines()
    sequences = [Sequence(name, number * NUMBERS_OF_SEQUENCE) for number, name in enumerate(names, start=1)]
    for sequence in sequences:
        session.ask(f"SELECT setval('{sequence.name}', {sequence.begin}, false)")
    # The daemon leaves partitions alone that are none of its own.
    session.ask("DO $$ BEGIN DELETE FROM periods; EXCEPTION WHEN undefined_table THEN NULL; END $$")
    for table, name in (("events", "event_ids"), ("messages", "message_ids")):
        make_periods(session, table, next(sequence.begin for sequence in sequences if sequence.name == name))
    return sequences


def make_periods(session: Session, table: str, begin: int) -> None:
    """Partitions for what is numbered from `begin` on, in a build whose table has any."""
    if session.ask(f"SELECT relkind FROM pg_class WHERE oid = '{table}'::regclass").strip() != "p":
        return
    ends = [begin + number * NUMBERS_OF_PERIOD for number in range(1, PERIODS + 1)] + [begin + NUMBERS_OF_SEQUENCE]
    for number, (start, end) in enumerate(zip([begin, *ends], ends)):
        session.ask(f"CREATE TABLE {table}_clones{number} (LIKE {table} INCLUDING DEFAULTS)")
        session.ask(f"ALTER TABLE {table} ATTACH PARTITION {table}_clones{number} FOR VALUES FROM ({start}) TO ({end})")


def vacuums_of_period(session: Session, number: int) -> list[list[str]]:
    """Of what clones have filled of a period, a list for each table; none in a build without periods."""
    names = [f"{table}_clones{min(number, PERIODS)}" for table in ("events", "messages")]
    return [[f"VACUUM {name}"] for name in names if session.ask(f"SELECT to_regclass('{name}')").strip()]


def column_types(session: Session) -> dict[str, dict[str, str]]:
    """Of all tables, by table and column."""
    types: dict[str, dict[str, str]] = {}
    for line in session.ask(
            "SELECT relname, attname, format_type(atttypid, atttypmod) FROM pg_attribute a JOIN pg_class c "
            "ON c.oid = attrelid WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT relispartition AND attnum > 0 AND NOT attisdropped AND attgenerated = '' "
            "ORDER BY c.oid, attnum").splitlines():
        table, column, kind = line.split("|")
        types.setdefault(table, {})[column] = kind
    return types


def rows_of(session: Session, table: str, columns: list[str]) -> list[dict[str, str | None]]:
    """Values as PostgreSQL writes them."""
    names, values = ", ".join(f"'{column}'" for column in columns), ", ".join(f"{column}::text" for column in columns)
    return [json.loads(line) for line in session.ask(
        f"SELECT json_object(ARRAY[{names}], ARRAY[{values}]) FROM {table}").splitlines()]


def key_sql(key: str) -> str:
    """Of the clone's key in place of this one of the template."""
    step = int(key[:8], 16)
    if step >= TIME_STEPS:
        return f"md5('{key}' || n)::uuid::text"
    first = f"lpad(to_hex({step - STEPS_OF_CLONES} + n / {CLONES_OF_A_STEP}), 8, '0')"
    return f"({first} || left(md5('{key}' || n), 24))::uuid::text"


def purchase_hash_bytes(name: str) -> bytes:
    """What the hash of a purchase is made of: each part behind its length."""
    parts = [part.encode() for part in [*PURCHASE_HASH_PARTS, f"subs_{name}"]]
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def purchase_hash(name: str) -> str:
    digits = hashlib.sha256(purchase_hash_bytes(name)).hexdigest()[:32]
    return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


def purchase_hash_sql(name: str) -> str:
    """Of the clone's purchase: its name differs from the template's in the nine digits at the end."""
    hashed = f"sha256({bytes_sql(purchase_hash_bytes(name)[:-9])} || convert_to(lpad(n::text, 9, '0'), 'UTF8'))"
    return f"encode(substring({hashed} FROM 1 FOR 16), 'hex')::uuid::text"


def bytes_sql(value: bytes) -> str:
    return f"'\\x{value.hex()}'::bytea"
