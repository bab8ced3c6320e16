"""Connections that have asked once and then stay, as those of a crowd of senders do."""

import contextlib
import select
import socket

from processes import BenchError, raise_file_limit
from relay import PORT

REQUEST = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\n".encode()
# Beside the connections: libraries, logs, pipes.
OTHER_FILES = 200


@contextlib.contextmanager
def idle_connections(count: int):
    """Holds so many inside its `with`; all of them must still be open at its end."""
    if raise_file_limit() < count + OTHER_FILES:
        raise BenchError(f"{count} connections need as many open files: ulimit -Hn says less")
    held = []
    try:
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", PORT), timeout=10)
            connection.sendall(REQUEST)
            if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
                raise BenchError("an idle connection's one request was refused")
            held.append(connection)
        yield
        poll = select.poll()
        for connection in held:
            poll.register(connection, select.POLLIN)
        # Nothing is on its way to them: what can be read is their end.
        if closed := len(poll.poll(0)):
            raise BenchError(f"{closed} of {count} idle connections were closed under load")
    finally:
        for connection in held:
            connection.close()
