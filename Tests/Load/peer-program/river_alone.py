"""River without its client, which is in Go: its steps, as statements on the table that peer_river.py makes, enqueue,
claim and finish jobs as fast as they can (alone.py).

The steps are those of its driver (github.com/riverqueue/river, riverdriver/riverpgxv5/internal/dbsqlc/river_job.sql, as
of 2026: JobGetAvailable, JobSetStateIfRunningMany; InsertManyFast is a COPY), the statements are written anew. In turn
with River's own, in four rounds, they took 0.99 of PostgreSQL's time and as much log. Its client does more: it elects a
leader, announces what is enqueued, drops what is older than a day. A claim waits for a full batch here, and what it
claimed is finished by one statement while the next is claimed."""

import asyncio
from datetime import datetime, timezone

import asyncpg
import uvloop

from alone import BATCH, PAYLOAD, Load

CLIENT = "river_alone"
COLUMNS = "args created_at kind max_attempts metadata priority queue scheduled_at state tags".split()
ARGUMENTS = f'{{"payload": "{PAYLOAD}"}}'
CLAIM = """
    WITH next AS (
        SELECT * FROM river_job WHERE state = 'available' AND queue = $1 AND scheduled_at <= now()
        ORDER BY priority, scheduled_at, id LIMIT $2 FOR UPDATE SKIP LOCKED)
    UPDATE river_job AS job
    SET state = 'running', attempt = job.attempt + 1, attempted_at = now(),
        attempted_by = array_append(job.attempted_by, $3)
    FROM next WHERE job.id = next.id RETURNING job.*"""
FINISH = """
    UPDATE river_job AS job SET state = 'completed', finalized_at = done.finalized_at
    FROM unnest($1::bigint[], $2::timestamptz[]) AS done (id, finalized_at)
    WHERE job.id = done.id AND job.state = 'running' RETURNING job.*"""


async def main() -> None:
    producer, claimer, finisher = [await asyncpg.connect() for _ in range(3)]
    load, enqueued, claimed = Load(), asyncio.Semaphore(0), asyncio.Queue(1)

    async def enqueue() -> None:
        now = datetime.now(timezone.utc)
        job = ARGUMENTS, now, "finish", 25, "{}", 1, "default", now, "available", []
        await producer.copy_records_to_table("river_job", records=[job] * BATCH, columns=COLUMNS)
        enqueued.release()

    async def claim() -> None:
        while True:
            await enqueued.acquire()
            await claimed.put([job["id"] for job in await claimer.fetch(CLAIM, "default", BATCH, CLIENT)])

    async def finish() -> None:
        while True:
            jobs = await claimed.get()
            load.finish(len(await finisher.fetch(FINISH, jobs, [datetime.now(timezone.utc)] * len(jobs))))

    async with asyncio.TaskGroup() as group:
        endless = [group.create_task(claim()), group.create_task(finish())]
        await load.produce(enqueue)
        for task in endless:
            task.cancel()
    load.report()
    for connection in (producer, claimer, finisher):
        await connection.close()


uvloop.run(main())
