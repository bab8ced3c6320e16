"""The peer's queue without its front and receivers: pgqueuer enqueues, claims and finishes jobs as fast as it can
(alone.py)."""

import asyncio
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from alone import BATCH, PAYLOAD, Load


async def main() -> None:
    producer, consumer = await asyncpg.connect(), await asyncpg.connect()
    queries, pgq = Queries(AsyncpgDriver(producer)), PgQueuer.from_asyncpg_connection(consumer)
    load = Load()

    @pgq.entrypoint("finish")
    async def finish(_: Job) -> None:
        load.finish()

    async def produce() -> None:
        await load.produce(lambda: queries.enqueue(["finish"] * BATCH, [PAYLOAD.encode()] * BATCH, [0] * BATCH))
        pgq.shutdown.set()

    await asyncio.gather(produce(), pgq.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1)))
    load.report()
    await producer.close()
    await consumer.close()


uvloop.run(main())
