"""What the loads of the peers' queues alone have in common: jobs of about 1 KB are enqueued in batches while fewer than
so many wait or are under way, for so many seconds, one batch at least. Prints how many were finished, and in which
time."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

BATCH = 100
# Jobs that wait or are under way: enough for the next claim, not a backlog.
WAITING = 10 * BATCH
PAYLOAD = "x" * 1024


class Load:
    def __init__(self) -> None:
        self.seconds, self.began = float(sys.argv[1]), time.monotonic()
        self.waiting, self.finished = asyncio.Semaphore(WAITING), 0

    def finish(self, jobs: int = 1) -> None:
        self.finished += jobs
        for _ in range(jobs):
            self.waiting.release()

    async def produce(self, enqueue: Callable[[], Awaitable[object]]) -> None:
        """`enqueue` adds a batch. Returns when all jobs are finished."""
        while True:
            for _ in range(BATCH):
                await self.waiting.acquire()
            await enqueue()
            if time.monotonic() - self.began >= self.seconds:
                break
        for _ in range(WAITING):
            await self.waiting.acquire()

    def report(self) -> None:
        print(self.finished, time.monotonic() - self.began)
