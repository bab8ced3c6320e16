"""One private PostgreSQL cluster, with the settings that initdb gives it: durable, and the same for everything that is
compared. Reached by a socket alone."""

import glob
import os
import pathlib
import shutil
import signal
import subprocess

from processes import BenchError, Process, Scratch, server_user, wait_until

ROLE = "posthouse"


def tool(name: str) -> str:
    """Of the version whose binaries POSTHOUSE_TEST_POSTGRESQL names, else the newest that is installed; PostgreSQL's
    servers are not in PATH on Debian."""
    if named := os.environ.get("POSTHOUSE_TEST_POSTGRESQL"):
        return f"{named}/{name}"
    found = glob.glob(f"/usr/lib/postgresql/*/bin/{name}")
    newest = max(found, key=lambda path: int(path.split("/")[4]), default=shutil.which(name))
    if newest is None:
        raise BenchError(f"there is no {name}: is PostgreSQL's server installed?")
    return newest


class Session:
    """A psql that stays: asking it costs no new connection."""

    MARK = "-- end of answer --"

    def __init__(self, cluster: "Cluster", database: str):
        self.cluster, self.database = cluster, database
        self.child = subprocess.Popen(
            [tool("psql"), "-qXAt", "-v", "ON_ERROR_STOP=1", cluster.url(database, role="postgres")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, sql: str) -> str:
        self.child.stdin.write(f"{sql};\n\\echo {self.MARK}\n")
        self.child.stdin.flush()
        lines = []
        for line in self.child.stdout:
            if line.rstrip("\n") == self.MARK:
                return "\n".join(lines)
            lines.append(line.rstrip("\n"))
        raise BenchError(f"psql: {self.child.stderr.read().strip()}\n  in: {sql[:200]}")

    def another(self) -> "Session":
        return Session(self.cluster, self.database)

    def number(self, sql: str) -> float:
        return float(self.ask(sql) or 0)

    def row(self, sql: str) -> list[float]:
        return [float(field or 0) for field in self.ask(sql).split("|")]

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.child.stdin.close()
        self.child.wait()


class Cluster:
    def __init__(self, scratch: Scratch, name: str = "postgresql", settings: dict[str, str] | None = None,
                 environment: dict[str, str] | None = None):
        self.scratch, self.name, self.environment_of_server = scratch, name, environment
        self.directory = scratch.path / name
        self.directory.mkdir()
        if server_user():
            shutil.chown(self.directory, server_user(), server_user())
        self.data, self.sockets = self.directory / "data", self.directory / "sockets"
        self.as_server("mkdir", "-m", "700", str(self.sockets))
        self.make_data()
        self.server: Process | None = None
        self.start(settings or {})
        self.make_role()

    def make_data(self) -> None:
        # Trust is safe here: who reaches the socket is let in by the directory's permissions, 0700 by initdb's user.
        self.as_server(tool("initdb"), "--no-sync", "-D", str(self.data), "-U", "postgres", "--auth=trust",
                       "--encoding=UTF8", "--locale=C.UTF-8")

    def make_role(self) -> None:
        with self.session("postgres") as session:
            session.ask(f"CREATE ROLE {ROLE} LOGIN")
            self.version = session.ask("SHOW server_version")

    def as_server(self, *arguments: str) -> None:
        """Runs a tool to its end as the user that the server runs as."""
        process = Process(self.scratch, f"{self.name}-tools", list(arguments), user=server_user())
        if process.child.wait() != 0:
            raise BenchError(f"{arguments[0]}: {process.last_words()}")
        process.stop()

    def start(self, settings: dict[str, str]) -> None:
        """`settings` are those that the purpose asks for, beside the defaults."""
        options = ["listen_addresses=", f"unix_socket_directories={self.sockets}", "port=5432"]
        options += [f"{name}={value}" for name, value in settings.items()]
        arguments = [tool("postgres"), "-D", str(self.data)] + [part for option in options for part in ("-c", option)]
        # SIGINT: fast shutdown, without waiting for clients.
        self.server = Process(self.scratch, self.name, arguments, end=signal.SIGINT, user=server_user(),
                              environment=self.environment_of_server)
        wait_until("PostgreSQL's start", self.answers, 180)

    def server_processes(self) -> list[int]:
        """The first is the one that started the others."""
        first = self.server.child.pid
        return [first] + [int(number) for number in
                          pathlib.Path(f"/proc/{first}/task/{first}/children").read_text().split()]

    def answers(self) -> bool:
        if not self.server.is_running():
            raise BenchError(f"PostgreSQL ended at its start:\n{self.server.last_words()}")
        asked = subprocess.run(["pg_isready", "-q", "-h", str(self.sockets)], check=False)
        return asked.returncode == 0

    def restart(self, settings: dict[str, str]) -> None:
        self.server.stop()
        self.start(settings)
        # First in the list is last to be stopped: after those that use it.
        self.scratch.processes.insert(0, self.scratch.processes.pop())

    def url(self, database: str, role: str = ROLE) -> str:
        return f"host={self.sockets} port=5432 user={role} dbname={database}"

    def environment(self, database: str) -> dict[str, str]:
        """The same for programs that read libpq's variables."""
        return {"PGHOST": str(self.sockets), "PGPORT": "5432", "PGUSER": ROLE, "PGDATABASE": database}

    def session(self, database: str) -> Session:
        return Session(self, database)

    def fresh_database(self, name: str) -> str:
        """An empty database, and a checkpoint behind it, so that no run pays for the writes of the one before it."""
        with self.session("postgres") as session:
            session.ask(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            session.ask(f"CREATE DATABASE {name} OWNER {ROLE}")
            session.ask("CHECKPOINT")
        return name

    def checkpoint(self) -> None:
        with self.session("postgres") as session:
            session.ask("CHECKPOINT")

    def fsyncs_per_second(self) -> float:
        """pg_test_fsync's figure for fdatasync (one 8 KB write), what wal_sync_method is on Linux."""
        file = self.directory / "pg_test_fsync"
        command = [tool("pg_test_fsync"), "-s", "2", "-f", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
            try:
                for line in child.stdout:
                    # "        fdatasync                          9876.543 ops/sec     101 usecs/op"
                    words = line.split()
                    if len(words) >= 3 and words[0] == "fdatasync" and words[2] == "ops/sec":
                        return float(words[1])
            finally:
                child.kill()
        return 0
