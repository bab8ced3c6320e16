"""The peer of P2: the same job as a team would write it in a week, with FastAPI, pgqueuer and aiohttp, each set up as
its documentation says to. It keeps no ledger and resolves no transfers, so it does less.

What the documentation says (uvicorn: deployment; pgqueuer: guides/performance-tuning, 1.6; asyncpg: pools):
a uvicorn worker a core, uvloop and httptools, no access log; `pgq autovac`; a connection of its own for the queue and
pools for the rest; large batches for short jobs; one aiohttp session, its connections kept alive; durable tables, for
the daemon's are. How many connections and how large a batch is left open by those pages and depends on the machine: a
full run tries SETTINGS before it measures and gives the peer the best of them. (A first look, on a machine that others
used: 400 to 1,430 deliveries/s, one setting as far from itself as from the others. Not tried: attempts recorded in
batches, jobs that name their event instead of carrying it, `max_concurrent_tasks`.)
"""

import dataclasses
import os
import pathlib
import signal
import socket

from bench_context import Bench
from processes import BenchError, Process, run, wait_until
from relay import all_delivered
from traffic import send

PORT = 9510
DATABASE = "peer"
PROGRAM = pathlib.Path(__file__).resolve().parent / "peer-program"


@dataclasses.dataclass(frozen=True)
class Setting:
    # PostgreSQL connections of each front, and of each worker beside that of its queue.
    front_connections: int
    worker_connections: int
    # Jobs that are claimed at once.
    batch: int

    def environment(self) -> dict[str, str]:
        return {"PEER_FRONT_CONNECTIONS": str(self.front_connections), "PEER_BATCH": str(self.batch),
                "PEER_WORKER_CONNECTIONS": str(self.worker_connections)}


SETTINGS = [Setting(16, 8, 100), Setting(8, 8, 100), Setting(16, 16, 100), Setting(16, 8, 25)]
SCHEMA = """
    SET ROLE posthouse;
    CREATE TABLE peer_events (id text PRIMARY KEY, body bytea NOT NULL, received_at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE peer_attempts (event text NOT NULL, receiver integer NOT NULL, status integer NOT NULL,
                                at timestamptz NOT NULL DEFAULT now());
    RESET ROLE"""


def best_setting(bench: Bench, fan_out: int) -> Setting:
    """Each once; too short to tell them apart is --quick, which takes the first."""
    if bench.is_quick:
        return SETTINGS[0]
    tried = {setting: settled_per_second(bench, fan_out, setting) for setting in SETTINGS}
    for setting, per_second in tried.items():
        bench.note(f"the peer with {setting}: {per_second:,.0f}/s")
    return max(tried, key=tried.get)


def settled_per_second(bench: Bench, fan_out: int, setting: Setting) -> float:
    """As the daemon's figure is taken: from the first event's transaction until the last attempt is recorded."""
    environment = bench.cluster.environment(bench.cluster.fresh_database(DATABASE)) | setting.environment() | {
        "PEER_FAN_OUT": str(fan_out), "PEER_SOURCE_SECRET": str(bench.secrets.source),
        "PEER_INTEGRATION_SECRET": str(bench.secrets.integration), "PEER_RECEIVER": bench.nginx.url(0)[:-1]}
    for command in ("install", "autovac"):
        run([str(bench.python), "-m", "pgqueuer", command], 60, environment)
    with bench.cluster.session(DATABASE) as session:
        session.ask(SCHEMA)
        bench.cluster.checkpoint()
        processes = start(bench, environment, setting)
        try:
            received = bench.nginx.received()
            send(f"http://127.0.0.1:{PORT}/ingest/purchasely", bench.secrets.source, bench.seconds)
            owed = fan_out * all_delivered(
                session, bench.nginx, received, fan_out, 60 + 20 * bench.seconds, "SELECT count(*) FROM peer_events",
                "SELECT NOT EXISTS (SELECT FROM pgqueuer)")
            count, seconds = session.row(
                "SELECT count(*), extract(epoch FROM max(at) - (SELECT min(received_at) FROM peer_events)) "
                "FROM peer_attempts WHERE status = 204")
            if count != owed:
                raise BenchError(f"the peer owed {owed} deliveries and recorded {count:.0f}")
            return count / seconds
        finally:
            for process in reversed(processes):
                process.stop(10)


def start(bench: Bench, environment: dict[str, str], setting: Setting) -> list[Process]:
    cores = len(os.sched_getaffinity(0))
    front = [str(bench.python), "-m", "uvicorn", "receive:app", "--app-dir", str(PROGRAM), "--host", "127.0.0.1",
             "--port", str(PORT), "--workers", str(cores), "--loop", "uvloop", "--http", "httptools",
             "--no-access-log", "--log-level", "warning", "--backlog", "4096"]
    processes = [Process(bench.scratch, "peer-front", front, environment=environment)]
    for number in range(cores):
        processes.append(Process(bench.scratch, f"peer-worker-{number}",
                                 [str(bench.python), str(PROGRAM / "work.py")], end=signal.SIGTERM,
                                 environment=environment))

    def is_ready() -> bool:
        for process in processes:
            if not process.is_running():
                raise BenchError(f"{process.name} ended:\n{process.last_words()}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", PORT)) != 0:
                return False
        with bench.cluster.session(DATABASE) as session:
            # Every front's pool, every worker's pool and queue.
            wanted = cores * (setting.front_connections + setting.worker_connections + 1)
            return session.number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                                  "AND usename = 'posthouse'") >= wanted

    wait_until("the peer's start", is_ready, 60, 0.2)
    return processes
