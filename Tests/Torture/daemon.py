"""The daemon as a process of its own, its configuration, and what it said."""

import asyncio
import base64
import collections
import dataclasses
import json
import os
import pathlib
import re
import signal
import socket

from ports import free_port
from processes import RUNS, BenchError, Process, Scratch, did_nothing
from receivers import Receiver

START_S = 180
# Exit code; and the pause before the next start.
NO_DATABASE, RESTART_S = 69, 0.5


@dataclasses.dataclass
class Settings:
    """What goes into the file beside the defaults."""

    database_url: str
    # TOML values by key, for all integrations.
    integration: dict[str, str]
    database: dict[str, str] = dataclasses.field(default_factory=lambda: {"statement_timeout": '"5s"'})
    # Instead of [database]: the private cluster's directory.
    embedded: pathlib.Path | None = None
    # Further lines of the source.
    source: str = ""
    # Further tables, as they are.
    tables: str = ""


class Secrets:
    def __init__(self, scratch: Scratch, rng_bytes: bytes):
        self.source, self.integration = "torture-secret", f"whsec_{base64.b64encode(rng_bytes).decode()}"
        self.source_file, self.integration_file = scratch.path / "source-secret", scratch.path / "integration-secret"
        self.source_file.write_text(self.source + "\n")
        self.integration_file.write_text(self.integration + "\n")
        for file in (self.source_file, self.integration_file):
            file.chmod(0o644)


class Daemon:
    def __init__(self, scratch: Scratch, binary: pathlib.Path, secrets: Secrets, settings: Settings,
                 receivers: list[Receiver], number: int = 1):
        self.scratch, self.binary, self.secrets = scratch, binary, secrets
        self.settings, self.receivers, self.number = settings, receivers, number
        self.name = f"posthouse-{number}"
        self.file = scratch.path / f"{self.name}.toml"
        self.process: Process | None = None
        # A socket of ours that outlives it, as systemd's does; None: it opens its own.
        self.inherited: socket.socket | None = None
        self.port = free_port()
        self.write()

    def write(self, changes: dict[str, str] | None = None, spoil: str = "") -> None:
        """The configuration file; `spoil` is put at its end."""
        settings = self.settings
        tables = [f'[server]\nlisten = "127.0.0.1:{self.port}"']
        if settings.embedded:
            tables.append(f'[embedded]\ndirectory = "{settings.embedded}"')
        if settings.database_url:
            tables.append(f'[database]\nurl = "{settings.database_url}"\n' + lines(settings.database))
        tables.append('[[source]]\nname = "purchasely"\nkind = "purchasely"\n'
                      f'secret = {{ file = "{self.secrets.source_file}" }}\n{settings.source}')
        common = {"events": '["*"]', "allow_private": "true"} | settings.integration | (changes or {})
        for receiver in self.receivers:
            tables.append(f'[[integration]]\nname = "{receiver.name}"\nurl = "{receiver.url}"\n'
                          f'secret = {{ file = "{self.secrets.integration_file}" }}\n'
                          + lines(common))
        # Never half a file for one who reads it now.
        written = self.file.with_suffix(".new")
        written.write_text("\n".join(tables) + "\n" + settings.tables + spoil)
        written.rename(self.file)

    def keep_socket(self) -> None:
        self.inherited = socket.create_server(("127.0.0.1", self.port), backlog=4096)

    def start(self, environment: dict[str, str] | None = None, wrapper: list[str] | None = None) -> None:
        self.state.mkdir(exist_ok=True)
        self.state.chmod(0o777)
        environment = self.environment | (environment or {})
        arguments = [*(wrapper or []), str(self.binary), "serve", "--config", str(self.file)]
        if self.inherited:
            # systemd's protocol: descriptor 3, and LISTEN_PID names who may take it.
            os.set_inheritable(self.inherited.fileno(), True)
            script = f'exec 3<&{self.inherited.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
            arguments = ["bash", "-c", script, "posthouse", *arguments]
        self.process = Process(self.scratch, self.name, arguments, environment=environment,
                               keep_open=[self.inherited.fileno()] if self.inherited else [])

    @property
    def state(self) -> pathlib.Path:
        """Where the lock lies by which it takes over from its predecessor, and its spool."""
        return self.scratch.path / f"{self.name}.state"

    @property
    def environment(self) -> dict[str, str]:
        # A crash must end it, not start a backtrace of minutes.
        return os.environ | {"SWIFT_BACKTRACE": "enable=no", "STATE_DIRECTORY": str(self.state)}

    async def ready(self, patience_s: float = START_S) -> None:
        """When it could acknowledge a webhook. One that finds no database at its start ends and says so (exit code 69):
        it is started again, as by its unit (Restart=on-failure)."""
        try:
            async with asyncio.timeout(patience_s):
                while not await self.answers("/readyz"):
                    if not self.process.is_running():
                        if self.process.child.returncode == NO_DATABASE:
                            await asyncio.sleep(RESTART_S)
                            self.process.stop()
                            self.start()
                            continue
                        raise BenchError(f"posthouse serve ended at its start:\n{self.process.last_words()}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise BenchError(f"{self.name} was not ready within {patience_s} s:\n{self.process.last_words()}") from None

    async def answers(self, path: str) -> bool:
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer = await reader.read(4096)
                writer.close()
                return b" 200 " in answer.split(b"\r\n")[0]
        except (OSError, TimeoutError):
            return False

    def kill(self) -> None:
        self.process.child.kill()
        self.process.child.wait()
        self.process.stop()

    def signal(self, number: int) -> None:
        self.process.child.send_signal(number)

    async def ended(self, patience_s: float) -> int | None:
        """Its exit code, negative for a signal; None: it still runs."""
        try:
            async with asyncio.timeout(patience_s):
                while self.process.is_running():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            return None
        code = self.process.child.returncode
        self.process.stop()
        return code

    async def stop(self, patience_s: float = 120) -> int | None:
        if not self.process or not self.process.is_running():
            return 0
        self.signal(signal.SIGTERM)
        return await self.ended(patience_s)

    def peak_memory_mb(self) -> float:
        return self.process.peak_memory_mb()

    def warnings(self) -> collections.Counter[str]:
        """What it warned of, without the numbers in it."""
        found: collections.Counter[str] = collections.Counter()
        log = self.scratch.path / f"{self.name}.log"
        if not log.exists():
            return found
        for line in log.read_text(errors="replace").splitlines():
            entry = entry_of(line)
            if entry and entry["level"] not in ("warning", "error"):
                continue
            if not entry and not re.match(r"posthouse: |Fatal error|.*Fatal error", line):
                continue
            words = re.sub(r" transaction subs_\S+|/\S+|retry [A-Z_]+", "…", entry["message"] if entry else line)
            found[re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d[\dT:.Z-]*", "N", words)[:140]] += 1
        return found


async def run_command(arguments: list[str], patience_s: float) -> tuple[int, str, str]:
    """Runs a command to its end: its exit code, what it printed, and what it said besides.

    Raises TimeoutError, and kills it, where that takes too long."""
    for _ in range(RUNS):
        process = await asyncio.create_subprocess_exec(
            *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env=os.environ | {"SWIFT_BACKTRACE": "enable=no"})
        try:
            async with asyncio.timeout(patience_s):
                out, errors = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        said = errors.decode(errors="replace").strip()
        if not did_nothing(process.returncode, said):
            break
    return process.returncode, out.decode(errors="replace"), said


def entry_of(line: str) -> dict[str, str] | None:
    """An entry of the log; none is what else stands there, and a line that a kill cut off."""
    try:
        return json.loads(line) if line.startswith("{") else None
    except ValueError:
        return None


def lines(settings: dict[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in settings.items())
