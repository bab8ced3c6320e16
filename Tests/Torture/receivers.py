"""Receivers that note every delivery: webhook-id, arrival, verified signature. Each behaves, or misbehaves, as it is
told; what it got is the other half of the oracle."""

import asyncio
import base64
import collections
import dataclasses
import hashlib
import hmac
import json
import os
import random
import socket
import struct
import time

from ports import free_port

# More than the relay reads of a body.
ENDLESS_ENOUGH_BYTES = 1 << 20
ACCEPTING = b"HTTP/1.1 204 No Content\r\n\r\n"
# Everything but "refuse", which is the whole receiver's.
MOODS = ("reset", "hang-head", "hang-body", "drip", "garbage", "redirect", "endless", "error", "busy")


@dataclasses.dataclass
class Message:
    """All deliveries under one webhook-id."""

    type: str
    purchase: str
    event_id: str
    # Transfer id, from and to as the ledger writes holders.
    transfer: tuple[str, str, str] | None
    digest: bytes
    # What the relay says of an integration: which, and the messages that it names.
    about: tuple[str, tuple[str, ...]] | None = None
    arrived: list[float] = dataclasses.field(default_factory=list)
    # When the answer of success had been written.
    accepted: list[float] = dataclasses.field(default_factory=list)
    # When the answer that refuses it for good had been written.
    refused: list[float] = dataclasses.field(default_factory=list)
    # When the relay had closed the connection before it was answered.
    left: list[float] = dataclasses.field(default_factory=list)

    @property
    def answered(self) -> list[float]:
        """When it was answered for good, whichever way."""
        return sorted(self.accepted + self.refused)


class Receiver:
    def __init__(self, name: str, secret: str, seed: str, canary: "Receiver | None" = None, host: str = "127.0.0.1"):
        self.name, self.canary, self.host = name, canary, host
        self.key = base64.b64decode(secret.removeprefix("whsec_"))
        self.rng = random.Random(f"{seed}/{name}")
        self.messages: dict[str, Message] = {}
        # What the relay says of its integrations (`posthouse.*`).
        self.notices: dict[str, Message] = {}
        # What an operator gave up on the way here, and how often one had a message sent again.
        self.given_up: set[str] = set()
        self.replayed: collections.Counter[str] = collections.Counter()
        # The share of messages that are refused for good, each at every attempt.
        self.refused_share = 0.0
        # Whether it asked for what the relay says of its integrations.
        self.is_notified = False
        self.complaints: collections.Counter[str] = collections.Counter()
        self.behaved: collections.Counter[str] = collections.Counter()
        # The mood, and the share of requests that meet with it.
        self.mood, self.share = "accept", 1.0
        # By event id: what the source sent, to be found in what comes byte for byte.
        self.originals: dict[str, bytes] = {}
        # Events that name a person who is being erased: what waits of them comes with another in that place.
        self.rewritten: set[str] = set()
        self.answer_after_s = 0.0
        self.server: asyncio.Server | None = None
        self.open: set[asyncio.Transport] = set()
        self.port = free_port(host)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/{self.name}"

    async def start(self) -> None:
        self.server = await asyncio.get_running_loop().create_server(
            lambda: Conversation(self), self.host, self.port, backlog=1024, reuse_address=True)

    async def refuse(self) -> None:
        """Nobody listens any more, and connections are closed; what was written to them still arrives."""
        if self.server:
            self.server.close()
            self.server = None
        for transport in list(self.open):
            transport.close()

    async def behave(self) -> None:
        self.mood, self.share, self.answer_after_s = "accept", 1.0, 0.0
        if self.server is None:
            await self.start()

    def refuses(self, identifier: str) -> bool:
        """By the message itself, so that each of its attempts is answered alike."""
        return hashlib.sha256(f"{self.name}/{identifier}".encode()).digest()[0] < 256 * self.refused_share

    def mood_of_request(self, identifier: str) -> str:
        if self.refuses(identifier):
            return "never"
        mood = self.mood if self.mood == "accept" or self.rng.random() < self.share else "accept"
        self.behaved[mood] += 1
        return mood

    def take(self, headers: dict[str, str], body: bytes) -> Message | None:
        """Verifies and notes one delivery."""
        identifier, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        signed = f"{identifier}.{stamp}.".encode() + body
        expected = base64.b64encode(hmac.new(self.key, signed, hashlib.sha256).digest()).decode()
        if f"v1,{expected}" not in headers.get("webhook-signature", "").split(" "):
            self.complaints["a signature that does not verify"] += 1
            return None
        message, digest = self.messages.get(identifier) or self.notices.get(identifier), hashlib.sha256(body).digest()
        if message is None:
            message = self.read(body, digest)
            (self.notices if message.about else self.messages)[identifier] = message
        elif message.digest != digest:
            self.complaints["one webhook-id with two bodies"] += 1
        message.arrived.append(time.monotonic())
        return message

    def read(self, body: bytes, digest: bytes) -> Message:
        payload = json.loads(body)
        data = payload["data"]
        if payload["type"].startswith("posthouse."):
            said = data["original"]
            about = (said["integration"], tuple(said.get("messages", [])))
            return Message(payload["type"], "", "", None, digest, about)
        transfer = data.get("transfer")
        event_id = data.get("event_id") or ""
        original = self.originals.get(event_id)
        if original is not None and original not in body and event_id not in self.rewritten:
            self.complaints["a webhook that was not passed on byte for byte"] += 1
        return Message(
            payload["type"], (data.get("purchase") or {}).get("key") or "", event_id,
            (transfer["id"], ledger_holder(transfer["from"]), ledger_holder(transfer["to"])) if transfer else None,
            digest)


def ledger_holder(holder: dict[str, str]) -> str:
    user = holder.get("user_id")
    return f"user:{user}" if user else f"anon:{holder['anonymous_user_id']}"


class Conversation(asyncio.Protocol):
    """One connection: the relay sends one request after the other."""

    def __init__(self, receiver: Receiver):
        self.receiver, self.got, self.headers, self.drip = receiver, b"", None, None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.receiver.open.add(transport)

    def connection_lost(self, _: Exception | None) -> None:
        self.receiver.open.discard(self.transport)
        if self.drip:
            self.drip.cancel()

    def data_received(self, data: bytes) -> None:
        self.got += data
        if self.headers is None:
            head, separator, rest = self.got.partition(b"\r\n\r\n")
            if not separator:
                return
            lines = head.decode("latin-1").split("\r\n")[1:]
            self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            self.got = rest
        if len(self.got) < int(self.headers.get("content-length", "0")):
            return
        headers, body, self.headers, self.got = self.headers, self.got, None, b""
        message = self.receiver.take(headers, body)
        if self.receiver.answer_after_s:
            asyncio.get_running_loop().call_later(self.receiver.answer_after_s, self.answer, message, headers)
        else:
            self.answer(message, headers)

    def is_left(self) -> bool:
        """Whether the relay has closed the connection, though this side has not been told: whatever is answered now,
        it does not read it, and sends the message again."""
        with socket.socket(fileno=os.dup(self.transport.get_extra_info("socket").fileno())) as peeked:
            try:
                return not peeked.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except OSError:
                return True

    def answer(self, message: Message | None, headers: dict[str, str]) -> None:
        if self.transport.is_closing():
            return
        if self.is_left():
            if message:
                message.left.append(time.monotonic())
            return
        mood = self.receiver.mood_of_request(headers.get("webhook-id", ""))
        if mood == "accept":
            self.accept(message, ACCEPTING)
        elif mood == "endless":
            # Longer than anybody would read: its head says success, and that is what counts.
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n"
            self.accept(message, head + b"x" * ENDLESS_ENOUGH_BYTES)
        elif mood == "reset":
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.transport.abort()
        elif mood == "hang-body":
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        elif mood == "drip":
            answer = b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 300 + b"\r\n\r\n"
            self.drip = asyncio.create_task(self.drop_by_drop(answer))
        elif mood == "garbage":
            self.transport.write(self.receiver.rng.randbytes(200) + b"\r\n\r\n")
        elif mood == "redirect" and self.receiver.canary:
            self.transport.write(b"HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\nLocation: "
                                 + self.receiver.canary.url.encode() + b"\r\n\r\n")
        elif mood == "busy":
            self.transport.write(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
        elif mood == "never":
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            if message:
                message.refused.append(time.monotonic())
        elif mood == "gone":
            self.transport.write(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")
        elif mood != "hang-head":
            self.transport.write(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")

    def accept(self, message: Message | None, answer: bytes) -> None:
        self.transport.write(answer)
        if message:
            message.accepted.append(time.monotonic())

    async def drop_by_drop(self, answer: bytes) -> None:
        for byte in answer:
            self.transport.write(bytes([byte]))
            await asyncio.sleep(1)
