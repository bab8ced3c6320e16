"""PgBouncer before the server: transaction mode, four server connections for however many daemons."""

import pathlib

from cluster import ROLE, Cluster
from database import DATABASE
from processes import Process, Scratch, server_user, wait_until

CONNECTIONS = 4
PORT = 6432


class Pooler:
    def __init__(self, scratch: Scratch, server: Cluster):
        self.server = server
        self.directory: pathlib.Path = server.directory / "pooler"
        server.as_server("mkdir", "-m", "700", str(self.directory))
        file, users = scratch.path / "pgbouncer.ini", scratch.path / "pgbouncer-users"
        users.write_text(f'"{ROLE}" ""\n')
        # A server that could not be reached is tried again after a second; the usual fifteen would be the scenario.
        file.write_text(
            f"[databases]\n{DATABASE} = host={server.sockets} port=5432\n[pgbouncer]\nlisten_addr =\n"
            f"unix_socket_dir = {self.directory}\nlisten_port = {PORT}\nauth_type = trust\nauth_file = {users}\n"
            f"pool_mode = transaction\ndefault_pool_size = {CONNECTIONS}\nserver_round_robin = 1\n"
            "server_login_retry = 1\n")
        for path in (file, users):
            path.chmod(0o644)
        self.process = Process(scratch, "pgbouncer", ["/usr/sbin/pgbouncer", "-q", str(file)], user=server_user())
        wait_until("PgBouncer's start", (self.directory / f".s.PGSQL.{PORT}").exists, 180)

    @property
    def url(self) -> str:
        return f"host={self.directory} port={PORT} user={ROLE} dbname={DATABASE}"

    @property
    def database(self) -> dict[str, str]:
        """What goes into [database] beside the url; the schema is where the oracle's psql looks."""
        return {"statement_timeout": '"5s"', "pooling": '"transaction"', "schema": '"public"',
                "direct_url": f'"{self.server.url(DATABASE)}"'}
