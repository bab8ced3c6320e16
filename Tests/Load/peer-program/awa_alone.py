"""awa without a front and receivers: its own client enqueues jobs (by COPY), claims and finishes them as fast as it can
(alone.py).

What is finished stays until the ring of its sixteen segments has turned: by default a quarter of a minute, here a day,
as long as River keeps a job, so that none is dropped while it is measured. All that is kept is in one segment here."""

import os
from dataclasses import dataclass

import awa
import uvloop

from alone import BATCH, PAYLOAD, Load

SEGMENTS, DAY_MS = 16, 86_400_000
# Receipts of claims are in a ring of their own, which turns as fast as it does by default.
CLAIMS_MS = 1_000
# As many as it claims at once by default; with 100 or 1,000 a job cost a sixth more in a short try.
WORKERS = 512


@dataclass
class Finish:
    payload: str


async def main() -> None:
    client = awa.AsyncClient(os.environ["DATABASE_URL"])
    load = Load()

    @client.task(Finish, queue="finish")
    async def finish(_: awa.Job) -> None:
        load.finish()

    await client.start([("finish", WORKERS)], queue_storage_queue_slot_count=SEGMENTS,
                       queue_storage_queue_rotate_interval_ms=DAY_MS // SEGMENTS,
                       queue_storage_claim_rotate_interval_ms=CLAIMS_MS)
    await load.produce(lambda: client.enqueue_many_copy([Finish(PAYLOAD)] * BATCH, queue="finish"))
    # Finished jobs are recorded by now, or are by the orderly end.
    await client.shutdown(timeout_ms=5_000)
    load.report()
    await client.close()


uvloop.run(main())
