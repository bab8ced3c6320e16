"""pgqueuer's tables for peer_growth.py. It deletes a job that is finished; its log keeps that it was, without the
payload."""

from bench_context import Bench
from cluster import Session
from processes import run

NAME = "pgqueuer"
FINISHED = "SELECT count(DISTINCT job_id) FROM pgqueuer_log WHERE status = 'successful'"


def install(bench: Bench, environment: dict[str, str]) -> None:
    for command in ("install", "autovac"):
        run([str(bench.python), "-m", "pgqueuer", command], 60, environment)


def clone(session: Session, size: int) -> None:
    finished, first = map(int, session.row("SELECT count(DISTINCT job_id), max(job_id) + 1 FROM pgqueuer_log"))
    session.ask(f"SELECT setval(pg_get_serial_sequence('pgqueuer', 'id'), {first + size})")
    session.ask(
        "INSERT INTO pgqueuer_log (created, job_id, status, priority, entrypoint, traceback, aggregated) "
        "SELECT created, n, status, priority, entrypoint, traceback, aggregated "
        f"FROM generate_series({first}, {first + size - finished - 1}) n, "
        "(SELECT * FROM pgqueuer_log WHERE job_id = (SELECT min(job_id) FROM pgqueuer_log)) AS t")
