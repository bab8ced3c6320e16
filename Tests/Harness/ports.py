"""Ports for servers that are started later, and again."""

import random
import socket

# Below those that the kernel gives to who connects (net.ipv4.ip_local_port_range): one of them may be taken by the time
# the server starts.
LOW, HIGH = 10_000, 32_000
_given: set[int] = set()


def free_port(host: str = "127.0.0.1") -> int:
    """Free at this moment, and given to nobody else in this process."""
    while True:
        port = random.randrange(LOW, HIGH)
        if port in _given:
            continue
        try:
            socket.create_server((host, port)).close()
        except OSError:
            continue
        _given.add(port)
        return port
