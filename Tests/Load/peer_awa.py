"""awa's tables for peer_growth.py. A job is in one of the segments of a ring, finished or not, and what finished it is
recorded beside it, a batch of jobs a row; a segment is dropped as a whole."""

from bench_context import Bench
from cluster import Session
from processes import BenchError, run

NAME = "awa"
FINISHED = "SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches"
# What becomes of a column in a clone, whose jobs have numbers that are higher by `shift`; the others stay as they are.
CHANGED = {
    "ready_entries": {"job_id": "job_id + shift", "lane_seq": "lane_seq + shift"},
    "ready_segments": {"first_lane_seq": "first_lane_seq + shift", "next_lane_seq": "next_lane_seq + shift"},
    "ready_claim_attempt_batches": {
        "batch_id": "nextval('awa.ready_claim_attempt_batch_id_seq')", "first_lane_seq": "first_lane_seq + shift",
        "next_lane_seq": "next_lane_seq + shift",
        "lane_ranges": "int8multirange(int8range(first_lane_seq + shift, next_lane_seq + shift))"},
    "receipt_completion_batches": {
        "batch_id": "nextval('awa.receipt_completion_batch_id_seq')",
        "job_ids": "ARRAY(SELECT id + shift FROM unnest(job_ids) id)",
        "lane_seqs": "ARRAY(SELECT seq + shift FROM unnest(lane_seqs) seq)"},
}


def install(bench: Bench, environment: dict[str, str]) -> None:
    run([str(bench.python), "-m", "awa", "--database-url", environment["DATABASE_URL"], "migrate"], 60, environment)


def clone(session: Session, size: int) -> None:
    """All of the jobs that are there, whose numbers begin with 1 and have no gap, again and again."""
    jobs, last = map(int, session.row("SELECT count(*), max(job_id) FROM awa.ready_entries"))
    if jobs != last or size % jobs:
        raise BenchError(f"{size} jobs cannot be made of {jobs} with numbers up to {last}")
    for table, changed in CHANGED.items():
        columns = session.ask("SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute "
                              f"WHERE attrelid = 'awa.{table}'::regclass AND attnum > 0 AND NOT attisdropped").split()
        # LATERAL, so that the clones are made one after the other, in the order of their numbers.
        session.ask(f"CREATE TEMPORARY TABLE {table} AS SELECT * FROM awa.{table}")
        session.ask(f"INSERT INTO awa.{table} ({', '.join(columns)}) "
                    f"SELECT {', '.join(changed.get(column, column) for column in columns)} "
                    f"FROM generate_series(1, {size // jobs - 1}) n, "
                    f"LATERAL (SELECT *, n * {jobs} AS shift FROM pg_temp.{table} OFFSET 0) AS template")
    session.ask("SELECT setval(format('%I.%I', schemaname, sequencename), "
                f"last_value + {size - jobs}) FROM pg_sequences WHERE schemaname = 'awa' "
                "AND sequencename ~ '^(job_id|queue_enqueue|queue_claim)_seq'")
