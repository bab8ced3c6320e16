"""The peer's worker: pgqueuer claims jobs in batches, each is signed (Standard Webhooks), posted over one shared
aiohttp session, and its attempt recorded. A process a core, with uvloop."""

import asyncio
import base64
import hashlib
import hmac
import os
import pathlib
import signal
import time
from datetime import timedelta

import aiohttp
import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job

KEY = base64.b64decode(pathlib.Path(os.environ["PEER_INTEGRATION_SECRET"]).read_text().strip().removeprefix("whsec_"))
RECEIVER = os.environ["PEER_RECEIVER"]
BATCH = int(os.environ["PEER_BATCH"])
CONNECTIONS = int(os.environ["PEER_WORKER_CONNECTIONS"])
RECORD = "INSERT INTO peer_attempts (event, receiver, status) VALUES ($1, $2, $3)"


async def main() -> None:
    # A connection of its own for the queue and a pool for the rest, as pgqueuer's page on tuning says.
    queue = await asyncpg.connect()
    pgq = PgQueuer.from_asyncpg_connection(queue)
    for ending in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(ending, pgq.shutdown.set)
    connector = aiohttp.TCPConnector(limit=2 * BATCH, keepalive_timeout=60)
    async with (asyncpg.create_pool(min_size=CONNECTIONS, max_size=CONNECTIONS) as pool,
                aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=15)) as session):

        @pgq.entrypoint("deliver")
        async def deliver(job: Job) -> None:
            number, event, body = job.payload.split(b"\n", 2)
            identifier, stamp = f"msg_{event.decode()}", str(int(time.time()))
            signature = base64.b64encode(
                hmac.new(KEY, f"{identifier}.{stamp}.".encode() + body, hashlib.sha256).digest()).decode()
            headers = {"content-type": "application/json", "webhook-id": identifier, "webhook-timestamp": stamp,
                       "webhook-signature": f"v1,{signature}"}
            async with session.post(RECEIVER + number.decode(), data=body, headers=headers) as answer:
                await answer.read()
            await pool.execute(RECORD, event.decode(), int(number), answer.status)

        await pgq.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1))
    await queue.close()


uvloop.run(main())
