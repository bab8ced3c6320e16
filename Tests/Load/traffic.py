"""What is not ours and makes the figures: wrk sends, nginx receives, pgbench and nginx alone are the limits."""

import dataclasses
import pathlib
import re
import signal
import statistics
import urllib.request
import uuid

from cluster import Cluster
from processes import BenchError, Process, Scratch, run, wait_until

HERE = pathlib.Path(__file__).resolve().parent
NGINX_PORT = 9501
# Requests of wrk's that are made before its clock starts: more than any receiver here takes in a second.
PREPARED_PER_SECOND = 30_000


@dataclasses.dataclass
class Sent:
    """What wrk says of a run."""

    acknowledged: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        return self.acknowledged / self.seconds


def send(url: str, secret: pathlib.Path, seconds: float, connections: int = 256, threads: int = 2,
         **options: int | str) -> Sent:
    """Webhooks as fast as they are acknowledged, or paced by `options` (webhooks.lua). All must be answered 200: a
    figure with refusals in it would be one of something else."""
    paced = "mean_pause_ms" in options or connections == 1
    prepared = 0 if paced else int(PREPARED_PER_SECOND * seconds / threads)
    arguments = {"secret": secret, "run": uuid.uuid4().hex[:12], "prepared": prepared} | options
    given = [f"{key}={value}" for key, value in arguments.items()]
    return wrk("webhooks.lua", given, url, seconds, connections, threads)


def wrk(script: str, arguments: list[str], url: str, seconds: float, connections: int = 256, threads: int = 2) -> Sent:
    said = run(
        ["wrk", "-t", str(min(threads, connections)), "-c", str(connections), "-d", f"{seconds:g}", "--timeout", "20",
         "-s", str(HERE / script), url, "--"] + arguments,
        patience_s=seconds * 4 + 60)
    figures = dict(re.findall(r"(\w+)=([0-9.]+)", said[said.index("FIGURES"):]))
    if int(figures["non2xx"]) or int(figures["socket_errors"]):
        raise BenchError(f"not every webhook was acknowledged: {said[said.index('FIGURES'):].strip()}")
    return Sent(int(figures["requests"]), float(figures["seconds"]),
                int(figures["p50_us"]) / 1000, int(figures["p99_us"]) / 1000)


class Nginx:
    """Receivers: answers 204 at once, whatever is asked, and counts."""

    def __init__(self, scratch: Scratch):
        directory = scratch.path / "nginx"
        directory.mkdir()
        configuration = directory / "nginx.conf"
        configuration.write_text(f"""
            daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/error.log crit;
            events {{ worker_connections 4096; }}
            http {{
                access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;
                client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
                fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi;
                scgi_temp_path {directory}/scgi;
                server {{
                    listen 127.0.0.1:{NGINX_PORT} backlog=4096;
                    location / {{ return 204; }}
                    location = /count {{ stub_status; }}
                }}
            }}""")
        self.asked = 0
        self.process = Process(scratch, "nginx-log", ["nginx", "-c", str(configuration)], end=signal.SIGTERM)
        wait_until("nginx' start", self.answers, 10)

    def answers(self) -> bool:
        if not self.process.is_running():
            raise BenchError(f"nginx ended at its start:\n{self.process.last_words()}")
        try:
            return self.received() >= 0
        except OSError:
            return False

    def received(self) -> int:
        """Requests since its start, without those that asked for the count."""
        with urllib.request.urlopen(f"http://127.0.0.1:{NGINX_PORT}/count", timeout=10) as answer:
            # The third line: "accepts handled requests" of all connections.
            self.asked += 1
            return int(answer.read().split(b"\n")[2].split()[2]) - self.asked

    def url(self, number: int) -> str:
        return f"http://127.0.0.1:{NGINX_PORT}/{number}"

    def alone(self, seconds: float) -> float:
        """Requests a second that it answers when wrk does nothing but ask: the limit of HTTP on this machine."""
        said = run(["wrk", "-t", "1", "-c", "64", "-d", f"{seconds:g}", self.url(0)], patience_s=seconds + 30)
        return float(re.search(r"^Requests/sec: *([0-9.]+)", said, re.MULTILINE)[1])


class OneRow:
    """PostgreSQL's limit: one durable row of 1 KB in a transaction, as pgbench does it on the same cluster."""

    DATABASE = "one_row"

    def __init__(self, cluster: Cluster, scratch: Scratch):
        self.cluster, self.scratch = cluster, scratch
        self.script = scratch.path / "one-row.sql"
        self.script.write_text("INSERT INTO one_row (body) VALUES (repeat('x', 1024));\n")

    def prepare(self) -> None:
        self.cluster.fresh_database(self.DATABASE)
        with self.cluster.session(self.DATABASE) as session:
            session.ask("CREATE TABLE one_row (id bigint GENERATED ALWAYS AS IDENTITY, body text)")

    def pgbench(self, clients: int, seconds: float, *options: str) -> str:
        self.prepare()
        return run(["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, 2)),
                    "-T", str(max(1, round(seconds))), "-f", str(self.script), *options,
                    self.cluster.url(self.DATABASE, role="postgres")], patience_s=seconds + 60)

    def per_second(self, seconds: float) -> float:
        return float(re.search(r"^tps = ([0-9.]+)", self.pgbench(32, seconds), re.MULTILINE)[1])

    def commit_ms(self, seconds: float) -> float:
        """The median of one client's transactions."""
        prefix = self.scratch.path / "one-row-log"
        self.pgbench(1, seconds, "--log", f"--log-prefix={prefix}")
        # "client number latency_us script epoch us" a line; one file for the one thread.
        logs = list(self.scratch.path.glob("one-row-log.*"))
        latencies = [int(line.split()[2]) for log in logs for line in log.read_text().splitlines()]
        for log in logs:
            log.unlink()
        return statistics.median(latencies) / 1000
