"""The sender: signed Purchasely webhooks over several connections, repeated on anything but 200 as the vendor does,
and now and then although they were answered 200. What was answered 200 is the promise that the rest is held against."""

import asyncio
import collections
import contextlib
import random
import time

from webhooks import Histories, History, Webhook, signed_headers

# The vendor's own: it reads no longer.
ANSWER_TIMEOUT_S = 10
# A webhook has 8 s. What is refused behind them may be so because the machine stood still.
TIME_OVER_S = 7
# The vendor waits minutes to hours; so long would only make the runs longer.
REPEAT_S = (0.1, 1.5)
# Share of webhooks that are sent once more although they were acknowledged.
NEEDLESS_REPEATS = 0.1
# A connection is left after so many requests, so that all daemons see some.
REQUESTS_OF_CONNECTION = 40


class Sender:
    def __init__(self, histories: Histories, seed: str, addresses: list[tuple[str, int]], secret: str,
                 per_second: float, connections: int = 64, keep_alive: bool = True, unsettled_max: int = 2_000,
                 time_over_s: float = TIME_OVER_S):
        self.histories, self.rng = histories, random.Random(f"{seed}/sender")
        self.addresses, self.secret = addresses, secret.encode()
        self.per_second, self.connections, self.keep_alive = per_second, connections, keep_alive
        self.unsettled_max, self.time_over_s = unsettled_max, time_over_s
        self.begun: list[History] = []
        self.acknowledged: dict[str, float] = {}
        # By status, and by what kept one from coming: `refused`, `cut`, `late`.
        self.answers: collections.Counter[str] = collections.Counter()
        # Those that came when the time was over, which are none of these.
        self.overdue = 0
        self.slowest_s = 0.0
        # Of each answer of 200: when its request began, and the seconds that it took.
        self.took: list[tuple[float, float]] = []
        # Bodies by event id.
        self.sent: dict[str, bytes] = {}
        self.queue: asyncio.Queue[tuple[Webhook, History, int]] = asyncio.Queue()
        self.open_stages: dict[str, tuple[int, set[str]]] = {}
        self.waiting = 0

    @contextlib.asynccontextmanager
    async def sending(self, patience_s: float = 300):
        """Begins histories inside its `with`; then waits until all that was begun is acknowledged."""
        workers = [asyncio.create_task(self.work()) for _ in range(self.connections)]
        pump = asyncio.create_task(self.pump())
        try:
            yield self
            pump.cancel()
            deadline = time.monotonic() + patience_s
            while self.open_stages and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            # Needless repeats that are still to come.
            while self.waiting and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
        finally:
            for task in [pump, *workers]:
                task.cancel()
            await asyncio.gather(pump, *workers, return_exceptions=True)

    @property
    def unacknowledged(self) -> list[str]:
        return [webhook.event_id for history in self.begun for webhook in history.webhooks
                if webhook.event_id not in self.acknowledged]

    @property
    def last_acknowledged(self) -> float:
        """Time of the newest acknowledgement of something new."""
        return next(reversed(self.acknowledged.values()), 0)

    def longest_pause(self, since: float) -> float:
        """Seconds: the longest time without an acknowledgement from the last one before `since` until now."""
        times = [*self.acknowledged.values(), time.monotonic()]
        return max((after - before for before, after in zip(times, times[1:]) if after > since), default=0)

    async def pump(self) -> None:
        began, released = time.monotonic(), 0
        while True:
            due = (time.monotonic() - began) * self.per_second
            if released < due - 4 * self.per_second:
                # After a pause (too much was unsettled) what was missed is not made up for.
                released = due
            while released < due and self.waiting < self.unsettled_max:
                history = self.histories.next()
                self.begun.append(history)
                released += len(history.webhooks)
                self.open(history, 0)
            await asyncio.sleep(0.02)

    def open(self, history: History, stage: int) -> None:
        webhooks = history.stages[stage]
        self.open_stages[history.purchase] = (stage, {webhook.event_id for webhook in webhooks})
        for webhook in webhooks:
            self.sent[webhook.event_id] = webhook.body
            self.put(webhook, history, 0)
            if self.rng.random() < NEEDLESS_REPEATS:
                self.put(webhook, history, 0, after_s=self.rng.uniform(0, 2))

    def put(self, webhook: Webhook, history: History, attempt: int, after_s: float = 0) -> None:
        self.waiting += 1
        if after_s:
            asyncio.get_running_loop().call_later(after_s, self.queue.put_nowait, (webhook, history, attempt))
        else:
            self.queue.put_nowait((webhook, history, attempt))

    def note_acknowledged(self, webhook: Webhook, history: History) -> None:
        self.acknowledged.setdefault(webhook.event_id, time.monotonic())
        stage, missing = self.open_stages.get(history.purchase, (0, set()))
        missing.discard(webhook.event_id)
        if missing or history.purchase not in self.open_stages:
            return
        del self.open_stages[history.purchase]
        if stage + 1 < len(history.stages):
            self.open(history, stage + 1)

    async def work(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                webhook, history, attempt = await self.queue.get()
                if connection is None or connection.requests >= REQUESTS_OF_CONNECTION or not self.keep_alive:
                    if connection:
                        connection.close()
                    connection = Connection(self.rng.choice(self.addresses), self.keep_alive)
                began = time.monotonic()
                headers = signed_headers(self.secret, webhook.body) if webhook.source == "purchasely" else {}
                answer = await connection.post(f"/ingest/{webhook.source}", headers, webhook.body)
                took = time.monotonic() - began
                self.slowest_s = max(self.slowest_s, took)
                if answer in ("503", "late") and took >= self.time_over_s:
                    self.overdue += 1
                else:
                    self.answers[answer] += 1
                self.waiting -= 1
                if answer == "200":
                    self.took.append((began, took))
                    self.note_acknowledged(webhook, history)
                else:
                    pause = min(REPEAT_S[0] * 2 ** min(attempt, 10), REPEAT_S[1]) * self.rng.uniform(0.5, 1.5)
                    self.put(webhook, history, attempt + 1, pause)
                if answer != "200" or connection.is_over:
                    connection.close()
                    connection = None
        finally:
            if connection:
                connection.close()


class Connection:
    """HTTP/1.1, one request after the other."""

    def __init__(self, address: tuple[str, int], keep_alive: bool = True):
        self.address, self.keep_alive, self.requests, self.is_over = address, keep_alive, 0, False
        self.writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, headers: dict[str, str], body: bytes) -> str:
        """The status, or what kept it from coming."""
        head = [f"POST {path} HTTP/1.1", f"Host: {self.address[0]}:{self.address[1]}", "Content-Type: application/json",
                f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items())]
        if not self.keep_alive:
            head.append("Connection: close")
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                if self.writer is None:
                    try:
                        self.reader, self.writer = await asyncio.open_connection(*self.address)
                    except OSError:
                        return "refused"
                self.requests += 1
                self.writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
                return await self.answer()
        except TimeoutError:
            return "late"
        except (OSError, asyncio.IncompleteReadError, ValueError, IndexError):
            return "cut"

    async def answer(self) -> str:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        fields = dict(line.split(":", 1) for line in head[1:] if ":" in line)
        await self.reader.readexactly(int(fields.get("content-length", "0")))
        self.is_over = "close" in fields.get("connection", "")
        return head[0].split(" ")[1]

    def close(self) -> None:
        if self.writer:
            self.writer.close()
