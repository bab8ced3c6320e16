"""PostgreSQL as the victim: ended with everything it runs, full, crowded out, taken over by its standby. And psql,
which the oracle asks: not ours."""

import asyncio
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import time

from cluster import ROLE, Cluster, tool
from processes import BenchError, Scratch, wait_until

DATABASE = "posthouse"
# In a network of its own, where the usual port is free.
TLS_ADDRESS = "127.0.0.1"


class Server(Cluster):
    def __init__(self, scratch: Scratch, name: str = "postgresql", settings: dict[str, str] | None = None,
                 environment: dict[str, str] | None = None, data_mount_mb: int = 0, tls: bool = False):
        self.settings, self.data_mount_mb, self.mounted = settings or {}, data_mount_mb, False
        self.authority = scratch.path / f"{name}-ca.pem" if tls else None
        if tls:
            self.settings |= {"listen_addresses": TLS_ADDRESS, "ssl": "on"}
        super().__init__(scratch, name, self.settings, environment)

    def make_data(self) -> None:
        if self.data_mount_mb:
            self.as_server("mkdir", "-m", "700", str(self.data))
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.data_mount_mb}m,mode=0700,uid="
                            f"{self.data.stat().st_uid},gid={self.data.stat().st_gid}", "tmpfs", str(self.data)],
                           check=True)
            self.mounted = True
        super().make_data()
        if self.authority:
            self.make_certificate()

    def make_certificate(self) -> None:
        """One for localhost that nobody else has signed; and over the network nobody is let in without TLS."""
        key, certificate = self.data / "server.key", self.data / "server.crt"
        self.as_server("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                       "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out",
                       str(certificate))
        self.authority.write_bytes(certificate.read_bytes())
        with open(self.data / "pg_hba.conf", "w", encoding="ascii") as rules:
            rules.write(f"local all all trust\nhostssl all {ROLE} {TLS_ADDRESS}/32 trust\n")

    def url(self, database: str, role: str = ROLE) -> str:
        if self.authority is None or role != ROLE:
            return super().url(database, role)
        return (f"host=localhost hostaddr={TLS_ADDRESS} port=5432 user={role} dbname={database} sslmode=verify-full "
                f"sslrootcert={self.authority}")

    def close(self) -> None:
        self.server.stop()
        if self.mounted:
            subprocess.run(["umount", str(self.data)], check=False)

    async def ask(self, sql: str, database: str = DATABASE, patience_s: float = 120) -> str:
        """One psql for each question: it needs no session that the faults could end."""
        deadline = time.monotonic() + patience_s
        while True:
            process = await asyncio.create_subprocess_exec(
                tool("psql"), "-qXAt", "-v", "ON_ERROR_STOP=1", "-c", sql, self.url(database, role="postgres"),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    out, error = await process.communicate()
            except TimeoutError:
                process.kill()
                await process.wait()
                raise BenchError(f"psql did not end within {patience_s} s: {sql[:80]}") from None
            if process.returncode == 0:
                return out.decode().rstrip("\n")
            # Sessions that are ending may still hold the places kept for the superuser.
            if b"too many clients" not in error or time.monotonic() > deadline:
                raise BenchError(f"psql: {error.decode().strip()[:300]}")
            await asyncio.sleep(0.1)

    def processes_of_server(self) -> list[int]:
        """The postmaster and what it runs: each has a session of its own, so no signal to a group reaches them all."""
        postmaster = self.server.child.pid
        children = pathlib.Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        return [postmaster, *map(int, children)]

    def kill(self) -> None:
        """Everything of it, by SIGKILL, as when its machine's power fails; returns when all are gone."""
        # Stopped first, so that it starts none while they are counted.
        os.kill(self.server.child.pid, signal.SIGSTOP)
        wait_until("PostgreSQL's standstill", lambda: state_of(self.server.child.pid) != "running", 60, 0.005)
        victims = self.processes_of_server()
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.server.child.wait()
        wait_until("the end of PostgreSQL's processes", lambda: not any(map(is_alive, victims)), 60)
        self.server.stop()

    def start_again(self) -> None:
        self.start(self.settings)

    async def kill_and_start(self, away_s: float) -> None:
        await asyncio.to_thread(self.kill)
        await asyncio.sleep(away_s)
        await asyncio.to_thread(self.start_again)

    def answers_or_ended(self) -> bool:
        asked = subprocess.run(["pg_isready", "-q", "-h", str(self.sockets)], check=False)
        return asked.returncode == 0 or not self.server.is_running()

    OURS = (f"FROM pg_stat_activity WHERE usename = '{ROLE}' AND backend_type = 'client backend' "
            "AND application_name <> 'crowd'")

    async def end_connections(self, share: float = 1.0) -> int:
        """pg_terminate_backend of the daemon's sessions, or of a random share of them."""
        return int(await self.ask(
            f"SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid {self.OURS} AND random() < {share}) s"))

    # MARK: A standby

    def standby(self, scratch: Scratch) -> "Server":
        """A second node that follows this one by streaming replication."""
        return Standby(scratch, self)

    def wait_for(self, standby: "Standby") -> None:
        """From now on each commit is the standby's, too. Set here alone: once it is promoted it waits for nobody."""
        with self.session("postgres") as session:
            session.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{standby.name}'")
            session.ask("SELECT pg_reload_conf()")
            wait_until("a synchronous standby", lambda: session.ask(
                "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1", 180)


class Standby(Server):
    def __init__(self, scratch: Scratch, primary: Server):
        self.primary = primary
        super().__init__(scratch, "standby")

    def make_data(self) -> None:
        self.as_server(tool("pg_basebackup"), "-D", str(self.data), "-R", "-X", "stream", "-c", "fast",
                       "-d", f"host={self.primary.sockets} port=5432 user=postgres application_name=standby")

    def make_role(self) -> None:
        """It has the primary's."""

    def promote(self) -> None:
        with self.session("postgres") as session:
            if session.ask("SELECT pg_promote(wait => true, wait_seconds => 300)") != "t":
                raise BenchError("the standby was not promoted")


def state_of(pid: int) -> str:
    """`running`, `stopped` or `ended`: one that was not waited for has ended, too."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "ended"
    return {"T": "stopped", "Z": "ended", "X": "ended"}.get(stat.rsplit(")", 1)[1].split()[0], "running")


def is_alive(pid: int) -> bool:
    return state_of(pid) != "ended"


class Crowd:
    """Connections of somebody else's, over PostgreSQL's own protocol: as many as there are places."""

    def __init__(self, server: Server):
        self.path, self.held = str(server.sockets / ".s.PGSQL.5432"), []

    def take_all(self, limit: int = 500) -> int:
        """Until PostgreSQL takes no more; returns how many there are now."""
        while len(self.held) < limit:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(5)
            try:
                connection.connect(self.path)
                parameters = b"".join(part.encode() + b"\0" for part in (
                    "user", ROLE, "database", DATABASE, "application_name", "crowd"))
                # Length and version 3.0, then the parameters, then an empty one.
                connection.sendall(struct.pack("!ii", 9 + len(parameters), 196608) + parameters + b"\0")
                self.await_ready(connection)
            except OSError:
                connection.close()
                break
            self.held.append(connection)
        return len(self.held)

    @staticmethod
    def await_ready(connection: socket.socket) -> None:
        """Messages (type, length, content) up to ReadyForQuery: who was let in may still find no room."""
        with connection.makefile("rb") as answers:
            while (kind := answers.read(1)) != b"Z":
                if kind in (b"E", b""):
                    raise ConnectionRefusedError("no place")
                answers.read(struct.unpack("!i", answers.read(4))[0] - 4)

    async def push_out(self, server: Server, rounds: int = 40) -> int:
        """Ends the daemon's connections and takes their places, faster than it comes back; returns what it keeps."""
        kept = -1
        for _ in range(rounds):
            taking = asyncio.create_task(asyncio.to_thread(self.keep_taking, 0.3))
            await server.end_connections()
            await taking
            if (kept := int(await server.ask(f"SELECT count(*) {server.OURS}"))) == 0:
                break
        return kept

    def keep_taking(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.take_all()

    def leave(self) -> None:
        for connection in self.held:
            connection.close()
        self.held = []


class Ballast:
    """A file that leaves no room on the data's file system."""

    def __init__(self, directory: pathlib.Path):
        self.file, self.directory = directory / "ballast", directory

    def fill(self) -> int:
        """Returns the bytes that it took."""
        with open(self.file, "ab") as file:
            while (free := shutil.disk_usage(self.directory).free) > 0:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), min(free, 1 << 20))
                except OSError:
                    break
        return self.file.stat().st_size

    def empty(self) -> None:
        self.file.unlink(missing_ok=True)


def why_no_mount(scratch: Scratch) -> str | None:
    """Why no file system of its own can be had here; None: it can."""
    if os.getuid() != 0:
        return "a small file system needs root"
    directory = scratch.path / "mount-test"
    directory.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        return f"no file system can be mounted here ({done.stderr.strip()})"
    subprocess.run(["umount", str(directory)], check=False)
    return None

