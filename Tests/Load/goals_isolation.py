"""P9: what a receiver that hangs and one that is slow cost the others."""

import socket
import sys

from bench_context import Bench
from processes import Process, wait_until
from relay import Integration, healthy
from report import Row

DATABASE = "isolation"
HANGING_PORT, SLOW_PORT = 9503, 9504


def p9(bench: Bench) -> list[Row]:
    """Three healthy receivers; beside them one that never answers and one that takes two seconds, or neither."""
    program = str(bench.program("slow_receiver.py"))
    process = Process(bench.scratch, "slow", [sys.executable, program, str(HANGING_PORT), str(SLOW_PORT)])
    wait_until("the slow receivers' start", listens, 10)
    bad = [Integration("hanging", f"http://127.0.0.1:{HANGING_PORT}/"),
           Integration("slow", f"http://127.0.0.1:{SLOW_PORT}/")]
    beside, alone = [], []
    for _ in range(bench.repetitions):
        for values, others in ((beside, bad), (alone, [])):
            with bench.relay(bench.cluster.fresh_database(DATABASE), healthy(bench.nginx) + others) as relay:
                values.append(bench.deliver(DATABASE).per_second)
                # In order it would wait for what hangs.
                relay.process.kill()
        bench.note(f"the healthy ones beside them {beside[-1]:,.0f}/s, alone {alone[-1]:,.0f}/s")
    process.stop()
    return [Row("P9", "settled of three, beside a hanging and a slow one", "/s", beside, "≥ 0.95",
                "settled of three, alone", alone,
                notes=["every event is recorded for five receivers on one side, for three on the other"])]


def listens() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", SLOW_PORT)) == 0
