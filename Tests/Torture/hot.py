"""Each hot dimension taken far: what the last costs against what the first did (processor time of the daemon and of
PostgreSQL, so that a busy machine says the same as an idle one), how large the stored state of a purchase becomes,
whether a webhook is refused, and how long the questions about it take."""

import asyncio
import dataclasses
import json
import pathlib
import random
import shlex
import statistics
import time

from cpu import TICKS_PER_SECOND, CPUTime
from daemon import Daemon, Secrets, Settings, run_command
from database import DATABASE, Server
from hot_dimensions import DIMENSIONS, SOURCES, TOKEN, Dimension, Request
from processes import BenchError, Scratch, wait_until
from receivers import Receiver
from sender import Connection

COUNT, COUNT_SHORT = 10_000, 600
COST_RATIO_MAX = 3.0
# Bytes of `purchases.state`; and of few events, for each of them.
STATE_BYTES_MAX, STATE_BYTES_EACH = 64 << 10, 64
BLOCKS, BLOCKS_COMPARED = 20, 3
# Processor time is counted in ticks; on a fast machine a short block is one or two of them.
TICKS_LEAST = 3
# Before the first block: they fill caches and plan statements.
WARM_UP = 20
CONNECTIONS = 4
# Of one transaction at most (Limits.recordBatchEventsMax).
BATCH = 500
DRAIN_S, ANSWER_S = 300, 180
# A webhook has 8 s. What is refused behind them may come again so often: the machine may have stood still.
TIME_OVER_S, TIMES = 7, 3


@dataclasses.dataclass
class HotResult:
    dimension: str
    what: str
    count: int
    # Milliseconds of processor time each: of the first tenth, and of the dearest blocks, which are not always the last.
    first_ms: float = 0
    dearest_ms: float = 0
    state_bytes: int = 0
    seconds: float = 0
    # Seconds by question, and by what was sent at the end.
    answered_s: dict[str, float] = dataclasses.field(default_factory=dict)
    findings: list[str] = dataclasses.field(default_factory=list)
    blocks_ms: list[float] = dataclasses.field(default_factory=list)

    @property
    def verdict(self) -> str:
        return "FAILED" if self.findings else "held"

    @property
    def ratio(self) -> float:
        return self.dearest_ms / self.first_ms if self.first_ms else 0

    def compare(self, least_ms: float) -> None:
        """`least_ms` is what the clock of processor time tells apart."""
        self.first_ms = max(min(self.blocks_ms[:2]), least_ms)
        self.dearest_ms = max(statistics.median(self.blocks_ms[begin:begin + BLOCKS_COMPARED])
                              for begin in range(len(self.blocks_ms) - BLOCKS_COMPARED + 1))
        if self.ratio > COST_RATIO_MAX:
            self.findings.append(f"one costs up to {self.ratio:.1f} times the first")

    def row(self) -> list[str]:
        slowest = max(self.answered_s.items(), key=lambda answered: answered[1], default=("", 0))
        return [self.dimension, self.verdict, str(self.count), f"{self.first_ms:.2f} ms",
                f"{self.dearest_ms:.2f} ms", f"{self.ratio:.1f}", f"{self.state_bytes}", f"{self.seconds:.0f} s",
                f"{slowest[0]} {slowest[1]:.1f} s"]


HEAD = ["dimension", "", "count", "first", "dearest", "ratio", "state", "took", "slowest question"]


class HotBed:
    def __init__(self, scratch: Scratch, server: Server, binary: pathlib.Path, dimension: Dimension, count: int):
        self.scratch, self.server, self.binary = scratch, server, binary
        self.dimension, self.count = dimension, count
        self.result = HotResult(dimension.name, dimension.what, count)
        self.server.fresh_database(DATABASE)
        secrets = Secrets(scratch, random.Random(dimension.name).randbytes(32))
        self.receiver = Receiver("receiver", secrets.integration, dimension.name)
        if dimension.refused_for_good:
            self.receiver.mood = "never"
        token = scratch.path / "api-token"
        token.write_text(TOKEN + "\n")
        self.tables = SOURCES + (f'[[api_token]]\nname = "all"\ntoken = {{ file = "{token}" }}\n'
                                 'scopes = ["read", "write"]\n')
        self.secret = secrets.integration_file
        self.settings = Settings(self.server.url(DATABASE), {"permanent": "[400]", "concurrency": "64"},
                                 {"statement_timeout": '"10s"'}, tables=self.tables)
        self.daemon = Daemon(scratch, binary, secrets, self.settings, [self.receiver])
        # Each dimension begins with an empty database, on purpose.
        (self.daemon.state / "serving").unlink(missing_ok=True)
        self.made = 0

    async def run(self) -> HotResult:
        began = time.monotonic()
        try:
            await self.receiver.start()
            self.daemon.start()
            await self.daemon.ready()
            await self.measure()
            await self.ask()
        except (BenchError, OSError, TimeoutError) as error:
            self.result.findings.append(" | ".join(f"it did not come to its end: {error}".splitlines()))
        finally:
            await self.receiver.refuse()
            if self.daemon.process and self.daemon.process.is_running():
                self.daemon.kill()
        self.result.seconds = time.monotonic() - began
        return self.result

    # MARK: The cost of one

    async def measure(self) -> None:
        dimension, result = self.dimension, self.result
        blocks = 2 * BLOCKS_COMPARED if dimension.at_once else BLOCKS
        size = BATCH if dimension.at_once else (self.count - WARM_UP) // BLOCKS
        result.count = WARM_UP + blocks * size
        if not await self.send(dimension.before(result.count), CONNECTIONS) or not await self.send(
                self.next_ones(WARM_UP), 1):
            return
        await self.drain()
        for block in range(blocks):
            if dimension.integrations:
                await self.add_integrations((block + 1) * size)
            requests = self.next_ones(size)
            before = self.cpu()
            at_once = dimension.at_once and block >= BLOCKS_COMPARED
            held = await self.send(requests, size if at_once else CONNECTIONS)
            await self.drain()
            used = self.cpu() - before
            result.blocks_ms.append(round((used.daemon + used.postgresql) * 1000 / size, 3))
            if not held:
                return
        result.compare(TICKS_LEAST * 1000 / TICKS_PER_SECOND / size)
        for number, request in enumerate(dimension.after, start=1):
            began = time.monotonic()
            await self.send([request], 1)
            result.answered_s[f"{request[0]} ({number})"] = round(time.monotonic() - began, 2)
        await self.drain()
        result.state_bytes = int(await self.server.ask("SELECT coalesce(max(octet_length(state)), 0) FROM purchases"))
        if result.state_bytes > min(STATE_BYTES_MAX, STATE_BYTES_EACH * result.count):
            result.findings.append(f"the state of a purchase has {result.state_bytes} bytes")

    def next_ones(self, count: int) -> list[Request]:
        self.made += count
        return [self.dimension.make(number) for number in range(self.made - count + 1, self.made + 1)]

    def cpu(self) -> CPUTime:
        return CPUTime.now(self.daemon.process.child.pid, self.server.server.child.pid)

    async def send(self, requests: list[Request], connections: int) -> bool:
        """Each once; False where one of them was not answered 200."""
        waiting, answers = iter(requests), {}

        async def work() -> None:
            connection = Connection(("127.0.0.1", self.daemon.port))
            headers = {"Authorization": f"Bearer {TOKEN}"}
            try:
                for path, body in waiting:
                    for _ in range(TIMES):
                        began = time.monotonic()
                        answer = await connection.post(path, headers, json.dumps(body).encode())
                        if answer not in ("503", "late") or time.monotonic() - began < TIME_OVER_S:
                            break
                        connection.close()
                        connection = Connection(("127.0.0.1", self.daemon.port))
                    answers[answer] = answers.get(answer, 0) + 1
                    if answer != "200" or connection.is_over:
                        connection.close()
                        connection = Connection(("127.0.0.1", self.daemon.port))
                    # One is a finding; thousands that each take their time say no more.
                    if answer != "200":
                        return
            finally:
                connection.close()

        await asyncio.gather(*(work() for _ in range(connections)))
        other = {answer: count for answer, count in answers.items() if answer != "200"}
        if other:
            self.result.findings.append(f"not answered 200 up to number {self.made}: {other}")
        return not other

    async def drain(self) -> None:
        def is_empty() -> bool:
            return session.ask("SELECT EXISTS (SELECT FROM deliveries)") == "f"

        with self.server.session(DATABASE) as session:
            await asyncio.to_thread(wait_until, "an empty queue", is_empty, DRAIN_S, 0.02)

    async def add_integrations(self, count: int) -> None:
        """So many that want nothing of what is sent, taken over by a reload."""
        self.settings.tables = self.tables + "".join(
            f'[[integration]]\nname = "quiet{number}"\nurl = "https://quiet{number}.example.com/"\n'
            f'secret = {{ file = "{self.secret}" }}\nevents = ["NOTHING"]\n' for number in range(count))
        self.daemon.write()
        self.daemon.signal(1)
        expected = str(count + 1)
        await asyncio.to_thread(wait_until, f"{count} integrations", lambda: self.integrations() == expected, 120, 0.2)

    def integrations(self) -> str:
        with self.server.session(DATABASE) as session:
            return session.ask("SELECT count(*) FROM integrations")

    # MARK: Questions about it

    async def ask(self) -> None:
        for question in ["status", *self.dimension.questions]:
            began = time.monotonic()
            if question.startswith("/"):
                command = ["curl", "-sS", "--fail", "-o", "/dev/null", "-H", f"Authorization: Bearer {TOKEN}",
                           f"http://127.0.0.1:{self.daemon.port}{question}"]
            else:
                command = [str(self.binary), *shlex.split(question), "--config", str(self.daemon.file)]
            if complaint := await run_to_end(command):
                self.result.findings.append(f"{question}: {complaint}")
            self.result.answered_s[question] = round(time.monotonic() - began, 2)


async def run_to_end(command: list[str]) -> str:
    """What is wrong with how it ended; empty: nothing."""
    try:
        code, _, said = await run_command(command, ANSWER_S)
    except TimeoutError:
        return f"no answer within {ANSWER_S} s"
    return "" if code == 0 else f"exit code {code}: {said[:200]}"


async def run_all(binary: pathlib.Path, names: list[str], count: int) -> list[HotResult]:
    results = []
    with Scratch("torture") as scratch:
        server = Server(scratch, settings={"max_connections": "60"})
        for dimension in DIMENSIONS:
            if names and dimension.name not in names:
                continue
            result = await HotBed(scratch, server, binary, dimension, count).run()
            results.append(result)
            print(f"hot {result.dimension}, {result.count} {result.what}: {result.verdict} "
                  f"({result.seconds:.0f} s): {result.first_ms:.2f} ms, then up to {result.dearest_ms:.2f} ms; a state "
                  f"has {result.state_bytes} bytes", flush=True)
            for finding in result.findings:
                print(f"  FOUND {finding}", flush=True)
    return results
