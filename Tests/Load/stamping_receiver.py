"""A receiver that answers 204 and notes when the first byte of each request came. Not nginx: its log knows whole
milliseconds, and P5 asks for less than three of them. Python is late rather than early, so it flatters nobody.

usage: stamping_receiver.py PORT FILE    writes "webhook-id nanoseconds-since-1970" a line when it is told to end
"""

import asyncio
import re
import signal
import sys
import time

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
IDENTIFIER = re.compile(rb"^webhook-id: *(\S+)", re.MULTILINE | re.IGNORECASE)
LENGTH = re.compile(rb"^content-length: *(\d+)", re.MULTILINE | re.IGNORECASE)
stamps: list[tuple[bytes, int]] = []


class Receiver(asyncio.Protocol):
    """One connection, one request at a time: the daemon does not pipeline."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport, self.got, self.since = transport, b"", 0

    def data_received(self, data: bytes) -> None:
        if not self.got:
            self.since = time.time_ns()
        self.got += data
        head, separator, body = self.got.partition(b"\r\n\r\n")
        if not separator:
            return
        length = LENGTH.search(head)
        if len(body) < (int(length[1]) if length else 0):
            return
        self.transport.write(ANSWER)
        self.got = b""
        stamps.append((IDENTIFIER.search(head)[1], self.since))


async def main() -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await ended.wait()
    server.close()
    with open(sys.argv[2], "w", encoding="ascii") as file:
        file.writelines(f"{identifier.decode()} {since}\n" for identifier, since in stamps)


asyncio.run(main())
