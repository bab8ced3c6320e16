"""The peer's front: FastAPI takes a Purchasely webhook, verifies it, stores it once, enqueues a job for each receiver
in the same transaction, and acknowledges after the commit. Run by uvicorn, a worker a core, with uvloop and httptools.
"""

import hashlib
import hmac
import json
import os
import pathlib
from contextlib import asynccontextmanager
from typing import AsyncIterator

import asyncpg
from fastapi import FastAPI, Request, Response
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

SECRET = pathlib.Path(os.environ["PEER_SOURCE_SECRET"]).read_bytes().removesuffix(b"\n")
FAN_OUT = int(os.environ["PEER_FAN_OUT"])
CONNECTIONS = int(os.environ["PEER_FRONT_CONNECTIONS"])
INSERT = "INSERT INTO peer_events (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan, openapi_url=None)


@app.post("/ingest/purchasely")
async def ingest(request: Request) -> Response:
    body = await request.body()
    stamp = request.headers.get("x-purchasely-timestamp", "")
    signed = hmac.new(SECRET, stamp.encode() + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(signed, request.headers.get("x-purchasely-request-signature", "")):
        return Response(status_code=401)
    event = json.loads(body)["event_id"]
    async with app.state.pool.acquire() as connection, connection.transaction():
        if await connection.fetchval(INSERT, event, body):
            # The job carries all that is sent, so that a worker need not read the event again.
            jobs = [b"%d\n%s\n%s" % (number, event.encode(), body) for number in range(1, FAN_OUT + 1)]
            await Queries(AsyncpgDriver(connection)).enqueue(["deliver"] * FAN_OUT, jobs, [0] * FAN_OUT)
    return Response(status_code=200)
