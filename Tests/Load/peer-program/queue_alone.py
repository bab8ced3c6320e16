"""The peer's queue without its front and receivers: jobs of about 1 KB are enqueued in batches, claimed and finished as
fast as they can be, for so many seconds, one batch at least. Prints how many were, and in which time."""

import asyncio
import sys
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 100
# Jobs that wait or are under way: enough for the next claim, not a backlog.
WAITING = 10 * BATCH
PAYLOAD = b"x" * 1024


async def main(seconds: float) -> None:
    producer, consumer = await asyncpg.connect(), await asyncpg.connect()
    queries, pgq = Queries(AsyncpgDriver(producer)), PgQueuer.from_asyncpg_connection(consumer)
    waiting, finished, began = asyncio.Semaphore(WAITING), 0, time.monotonic()

    @pgq.entrypoint("finish")
    async def finish(_: Job) -> None:
        nonlocal finished
        finished += 1
        waiting.release()

    async def produce() -> None:
        while True:
            for _ in range(BATCH):
                await waiting.acquire()
            await queries.enqueue(["finish"] * BATCH, [PAYLOAD] * BATCH, [0] * BATCH)
            if time.monotonic() - began >= seconds:
                break
        for _ in range(WAITING):
            await waiting.acquire()
        pgq.shutdown.set()

    await asyncio.gather(produce(), pgq.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1)))
    print(finished, time.monotonic() - began)
    await producer.close()
    await consumer.close()


uvloop.run(main(float(sys.argv[1])))
