"""Each breaks one thing for a while and mends it, by what the scenario's own randomness says. The caller's load goes on
meanwhile."""

import asyncio
import collections.abc
import contextlib
import os
import signal
import socket
import struct
import time

from bed import Bed
from database import DATABASE, Ballast, Crowd
from processes import BenchError, wait_until
from receivers import MOODS

# Seconds; the relay's own limit (Limits.leaseDuration).
LEASE_S = 15
# Shorter than the time after which the relay itself closes an idle connection (Limits.keepAliveIdleTimeout).
IDLE_S = 70
# Tables that the way of an event takes, and a lock that stops it while others still read.
LOCKS = ("LOCK TABLE deliveries IN EXCLUSIVE MODE", "LOCK TABLE purchases IN EXCLUSIVE MODE",
         "LOCK TABLE identities IN SHARE MODE", "SELECT FROM purchases FOR UPDATE", "SELECT FROM deliveries FOR UPDATE",
         "SELECT FROM daemons FOR UPDATE")


async def kill_daemon(bed: Bed, away_s: float = 0.5) -> None:
    daemon = bed.rng.choice(bed.daemons)
    with bed.breaking("kill -9 of a daemon") as fault:
        # Stopped while it is asked what it had in hand: of a dead one another daemon could take it over meanwhile.
        daemon.signal(signal.SIGSTOP)
        await bed.note_in_flight(fault)
        daemon.kill()
        await bed.rest(0, away_s)
        daemon.start()
        await daemon.ready()


async def freeze_daemon(bed: Bed, past_the_lease: bool = True) -> None:
    daemon = bed.rng.choice(bed.daemons)
    with bed.breaking("a daemon frozen past its lease" if past_the_lease else "a daemon frozen for a moment") as fault:
        daemon.signal(signal.SIGSTOP)
        try:
            await bed.note_in_flight(fault)
            await (bed.rest(LEASE_S + 1, LEASE_S + 4) if past_the_lease else bed.rest(0.2, 3))
        finally:
            daemon.signal(signal.SIGCONT)


async def terminate_daemon(bed: Bed) -> None:
    """In order: nothing may be lost or come twice, so this is no breaking."""
    bed.tried["SIGTERM and a new start"] += 1
    daemon = bed.rng.choice(bed.daemons)
    code = await daemon.stop()
    if code != 0:
        bed.findings.add("a daemon did not end in order at SIGTERM", f"exit code {code}")
        if code is None:
            daemon.kill()
    daemon.start()
    await daemon.ready()


async def reload_daemon(bed: Bed) -> None:
    daemon = bed.rng.choice(bed.daemons)
    if bed.rng.random() < 0.4:
        bed.tried["reload with a broken file"] += 1
        daemon.write(spoil=bed.rng.choice(
            ['[[integration]]\nname = "', "[serve]\nr = 1\n", "= = =\n", '[journal]\nx = 1\n']))
    else:
        bed.tried["reload with a good file"] += 1
        daemon.write({"concurrency": str(bed.rng.randint(2, 64)), "timeout": f'"{bed.rng.randint(5, 20)}s"'})
    daemon.signal(signal.SIGHUP)
    await bed.rest(0.05, 0.8)
    # The next start would refuse a broken one.
    daemon.write()


async def kill_postgres(bed: Bed) -> None:
    with bed.breaking("kill -9 of all of PostgreSQL"):
        await bed.current.kill_and_start(bed.rng.uniform(0, 2.5))


async def end_connections(bed: Bed) -> None:
    with bed.breaking("pg_terminate_backend"):
        count = await bed.current.end_connections(bed.rng.choice([0.2, 0.5, 1.0]))
    bed.tried["connections ended"] += count


async def crowd_out(bed: Bed) -> None:
    """The daemon's connections are ended, and others take their places."""
    crowd = Crowd(bed.current)
    with bed.breaking("max_connections taken by others"):
        try:
            await asyncio.to_thread(crowd.take_all)
            if kept := await crowd.push_out(bed.current, bed.rng.choice([3, 40])):
                bed.tried["with some places left to the daemon"] += 1
                bed.notes.append(f"others took {len(crowd.held)} places, the daemon kept {kept}")
            await bed.rest(1, 5)
        finally:
            crowd.leave()


async def hold_locks(bed: Bed) -> None:
    """A session that is idle in a transaction with locks that the daemon needs."""
    lock = bed.rng.choice(LOCKS)
    with bed.breaking("idle in a transaction with locks"):
        session = await asyncio.to_thread(bed.current.session, DATABASE)
        try:
            await asyncio.to_thread(session.ask, f"BEGIN; {lock}")
            await bed.rest(2, 9)
        except BenchError as error:
            # Of two that wait for each other PostgreSQL ends one: it may be this one.
            bed.notes.append(f"{lock}: {str(error).splitlines()[0]}")
        finally:
            session.child.kill()
            session.child.wait()


async def fill_disk(bed: Bed) -> None:
    ballast = Ballast(bed.current.data)
    with bed.breaking("no room on PostgreSQL's disk"):
        await asyncio.to_thread(ballast.fill)
        for _ in range(bed.rng.randint(10, 40)):
            # What is freed meanwhile (a log segment) is filled, too.
            await asyncio.sleep(0.1)
            await asyncio.to_thread(ballast.fill)
        ballast.empty()
        await asyncio.sleep(1)
        # It may be about to give up: for a recovery, too, there was no room.
        await asyncio.to_thread(wait_until, "PostgreSQL's answer, or its end", bed.current.answers_or_ended, 180, 0.2)
        if not bed.current.server.is_running():
            bed.tried["PostgreSQL ended by it"] += 1
            await asyncio.to_thread(bed.current.start_again)


async def misbehave(bed: Bed, moods: list[str] | None = None, low: float = 1.5, high: float = 4.0) -> None:
    """One receiver, never the first: so there is always one that does what it should."""
    receiver, mood = bed.rng.choice(bed.receivers[1:]), bed.rng.choice(moods or ["refuse", *MOODS])
    bed.tried[f"receivers: {mood}"] += 1
    if mood == "refuse":
        await receiver.refuse()
    else:
        receiver.mood, receiver.share = mood, bed.rng.choice([0.3, 0.7, 1.0])
    await bed.rest(low, high)
    await receiver.behave()


async def outage(bed: Bed, low: float, high: float) -> None:
    bed.tried["all receivers away"] += 1
    for receiver in bed.receivers:
        await receiver.refuse()
    await bed.rest(low, high)
    for receiver in bed.receivers:
        await receiver.behave()


# MARK: Clients

async def half_body(bed: Bed) -> None:
    """A body that ends in the middle, with a reset or in order."""
    bed.tried["half-sent bodies"] += 1
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(10):
            _, writer = await asyncio.open_connection("127.0.0.1", bed.daemon.port)
            writer.write(b"POST /ingest/purchasely HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n"
                         + b"{" * bed.rng.randrange(5000))
            await writer.drain()
            await bed.rest(0, 0.5)
            if bed.rng.random() < 0.5:
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.close()


async def slow_client(bed: Bed) -> None:
    """A byte now and then, until the relay has had enough or the scenario is over."""
    bed.tried["slow clients"] += 1
    head = b"POST /ingest/purchasely HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    sent = head[:bed.rng.randrange(len(head))] if bed.rng.random() < 0.5 else head
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", bed.daemon.port)
        try:
            writer.write(sent)
            while not writer.is_closing():
                await asyncio.sleep(0.3)
                writer.write(b"x")
                await writer.drain()
        finally:
            writer.close()


class Idle(asyncio.Protocol):
    """A connection that asks once and then stays."""

    is_over = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport, self.asked = transport, time.monotonic()
        transport.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")

    def eof_received(self) -> None:
        self.is_over = True

    def connection_lost(self, _: Exception | None) -> None:
        self.is_over = True


@contextlib.asynccontextmanager
async def idle_connections(bed: Bed, wanted: int) -> collections.abc.AsyncIterator[list[Idle]]:
    """As many as the limit on open files lets."""
    room = min(wanted, os.sysconf("SC_OPEN_MAX") - 1_000)
    held: list[Idle] = []
    try:
        for _ in range(room):
            _, idle = await asyncio.get_running_loop().create_connection(Idle, "127.0.0.1", bed.daemon.port)
            held.append(idle)
        bed.tried["idle connections"] += len(held)
        yield held
    finally:
        for idle in held:
            idle.transport.close()


def examine_idle(bed: Bed, held: list[Idle]) -> None:
    """They must still be open, those aside that are so old that the relay closes them: a slow machine took so long."""
    now = time.monotonic()
    young = [idle for idle in held if now - idle.asked < IDLE_S]
    if len(young) < len(held):
        bed.notes.append(f"{len(held) - len(young)} idle connections were too old to be looked at")
    if gone := sum(idle.is_over for idle in young):
        bed.findings.add("idle connections closed under load", gone)


# MARK: For the mixed ones

async def freeze_briefly(bed: Bed) -> None:
    await freeze_daemon(bed, past_the_lease=bed.rng.random() < 0.1)


async def brief_outage(bed: Bed) -> None:
    await outage(bed, 0.5, 4)
