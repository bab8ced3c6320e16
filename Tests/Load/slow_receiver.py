"""Two receivers that nobody wants: on the first port one that takes a request and never answers, on the second one that
answers 204 after two seconds.

usage: slow_receiver.py PORT PORT
"""

import asyncio
import sys

DELAY_S = 2
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(1 << 16):
        pass
    writer.close()


async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(lengths[0]) if lengths else 0)
            await asyncio.sleep(DELAY_S)
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    servers = [await asyncio.start_server(receive, "127.0.0.1", int(port), backlog=1024)
               for receive, port in zip((hang, answer_late), sys.argv[1:3])]
    await asyncio.gather(*(server.serve_forever() for server in servers))


asyncio.run(main())
