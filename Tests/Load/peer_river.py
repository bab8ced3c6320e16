"""River's table for peer_growth.py. A job that is finished stays where it was, by default for a day.

It has the columns, checks and indexes that River's migrations 002 to 007 leave behind (github.com/riverqueue/river,
riverdriver/riverpgxv5/migration/main: 002 at 62ce779, 004 at 7afc913, 005 at cc5f0e0; riverdatabasesql/migration/main:
006 at 2004586, 007 at afb382a), written anew. What no job here touches is left out: the other tables, and the function
in the condition of the unique index."""

from bench_context import Bench
from cluster import Session

NAME = "river"
FINISHED = "SELECT count(*) FROM river_job WHERE state = 'completed'"
TABLE = """
    SET ROLE posthouse;
    CREATE TYPE river_job_state AS ENUM (
        'available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled');
    CREATE TABLE river_job (
        id bigserial PRIMARY KEY, state river_job_state NOT NULL DEFAULT 'available',
        attempt smallint NOT NULL DEFAULT 0, max_attempts smallint NOT NULL DEFAULT 25, attempted_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(), finalized_at timestamptz,
        scheduled_at timestamptz NOT NULL DEFAULT now(), priority smallint NOT NULL DEFAULT 1, args jsonb NOT NULL,
        attempted_by text[], errors jsonb[], kind text NOT NULL, metadata jsonb NOT NULL DEFAULT '{}',
        queue text NOT NULL DEFAULT 'default', tags varchar(255)[] NOT NULL DEFAULT '{}', unique_key bytea,
        unique_states bit(8),
        CHECK ((finalized_at IS NOT NULL) = (state IN ('cancelled', 'completed', 'discarded'))),
        CHECK (max_attempts > 0), CHECK (priority BETWEEN 1 AND 4), CHECK (length(queue) BETWEEN 1 AND 127),
        CHECK (length(kind) BETWEEN 1 AND 127));
    RESET ROLE"""
INDEXES = """
    SET ROLE posthouse;
    CREATE INDEX by_kind ON river_job (kind);
    CREATE INDEX by_end ON river_job (state, finalized_at) WHERE finalized_at IS NOT NULL;
    CREATE INDEX by_turn ON river_job (state, queue, priority, scheduled_at, id);
    CREATE INDEX by_args ON river_job USING gin (args);
    CREATE INDEX by_metadata ON river_job USING gin (metadata);
    CREATE UNIQUE INDEX by_key ON river_job (unique_key) WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL;
    RESET ROLE"""


def install(bench: Bench, environment: dict[str, str]) -> None:
    with bench.cluster.session(environment["PGDATABASE"]) as session:
        session.ask(TABLE)
        session.ask(INDEXES)


def clone(session: Session, size: int) -> None:
    """One of the finished jobs, over the day that River keeps them. Indexes are made afterwards, as compact as River's
    reindexing leaves them once a day."""
    finished, first = map(int, session.row("SELECT count(*), max(id) + 1 FROM river_job"))
    clones = size - finished
    session.ask("DROP INDEX by_kind, by_end, by_turn, by_args, by_metadata, by_key")
    session.ask(
        "INSERT INTO river_job SELECT n, state, attempt, max_attempts, attempted_at - age, created_at - age, "
        "finalized_at - age, scheduled_at - age, priority, args, attempted_by, errors, kind, metadata, queue, tags, "
        "unique_key, unique_states "
        f"FROM generate_series({first}, {first + clones - 1}) n, (SELECT * FROM river_job LIMIT 1) AS template, "
        f"LATERAL (SELECT ({first + clones} - n) * interval '1 day' / {max(clones, 1)} AS age) AS a")
    session.ask(f"SELECT setval(pg_get_serial_sequence('river_job', 'id'), {first + clones})")
    session.ask(INDEXES)
