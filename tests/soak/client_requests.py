"""Sends a client's requests: on kept connections, pipelined, slowly, or on a new connection each time.

State of one request must not leak into the next, so requests of all kinds and principals share connections.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from harness.clients import RawClient
from harness.raw_connection import RawAnswer, RawConnection
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER
from security.oss_signers import ALL_SIGNERS
from security.signers import Form, Pairs
from soak.oracle import Oracle

KEEP: Final = 0.7
"""How many of the requests go by a connection that was used before and will be again."""
_SIP: Final = 48 * 1024
"""Bytes that a slow reader takes at once."""
_BROKEN: Final = RawAnswer(0, (), aborted=True)


class SoakServer(Protocol):
    """The server under test, as the clients see it."""

    def client(self, rng: random.Random) -> RawClient: ...

    def endpoints(self) -> Sequence[str]:
        """Of the workers, without TLS."""
        ...

    def record_duration(self, client: RawClient, what: str, seconds: float) -> None:
        """Records how long a request took. AssertionError if that is too long."""
        ...


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request to send."""

    method: str
    target: str
    headers: Pairs = ()
    body: bytes = b""
    secret: Secret = TRAINER
    form: Form = ("SignedV4", "header")
    """How it is signed. OSS's forms are asked and answered in its dialect."""

    @property
    def encoded(self) -> bytes:
        """The signed bytes, with the current time."""
        sign = ALL_SIGNERS[self.form]
        return sign(self.secret, self.method, self.target, self.headers, self.body, time.time(), None).wire


class RequestSender:
    """Sends the requests of one client. `is_timed`: whether the server may take no longer than it should."""

    def __init__(self, server: SoakServer, oracle: Oracle, rng: random.Random, *, is_timed: bool = True) -> None:
        self._server, self._oracle, self._rng, self._is_timed = server, oracle, rng, is_timed
        self._kept: dict[tuple[str, int], RawConnection] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(self, request: ClientRequest) -> RawAnswer:
        """Sends one request. The answer has status 0 if none came."""
        client = self._server.client(self._rng)
        began = time.monotonic()
        [answer] = await self._exchange(client, [request], keep=self._rng.random() < KEEP)
        if self._is_timed:
            self._server.record_duration(client, request.method, time.monotonic() - began)
        if answer.aborted and not answer.status:
            await asyncio.sleep(0.1)  # its worker is not there: as any client, not again at once
        return answer

    async def send_pipelined(self, request: Sequence[ClientRequest]) -> list[RawAnswer]:
        """Several on one connection, none waiting for the answer before it (pipelined). In their order."""
        self._oracle.done["requests that came together"] += len(request)
        return await self._exchange(self._server.client(self._rng), request, keep=True)

    async def send_reading_slowly(self, request: ClientRequest) -> RawAnswer:
        """Sends one request and reads its answer in small pieces."""
        client = self._server.client(self._rng)
        try:
            async with await client.open(receive_buffer=4096) as connection:
                await connection.send(request.encoded)
                head = await connection.read_head(request.method)
                body = bytearray()
                while not head.aborted and (piece := await connection.read(_SIP)):
                    body += piece
                    await asyncio.sleep(self._rng.random() * 0.02)
        except OSError:
            return self._record(request, _BROKEN)
        length = 0 if request.method == "HEAD" or head.status == 304 else int(head.headers.get("Content-Length", 0))
        short = head.aborted or len(body) < length
        self._oracle.done["read slowly"] += 1
        return self._record(request, RawAnswer(head.status, head.pairs, bytes(body), short))

    async def send_reading_late(self, request: ClientRequest, seconds: float) -> RawAnswer:
        """Sends one request and reads nothing but the head of its answer for so long."""
        client = self._server.client(self._rng)
        try:
            async with await client.open(receive_buffer=4096) as connection:
                await connection.send(request.encoded)
                head = await connection.read_head(request.method)
                await asyncio.sleep(seconds)
                body, is_short = (b"", True) if head.aborted else await connection.read_rest()
        except OSError:
            return self._record(request, _BROKEN)
        self._oracle.done["read late"] += 1
        return self._record(request, RawAnswer(head.status, head.pairs, body, head.aborted or is_short))

    async def send_and_disconnect(self, request: ClientRequest) -> None:
        """Sends a request, reads a part of its answer, and resets the connection."""
        client = self._server.client(self._rng)
        try:
            connection = await client.open()
        except OSError:
            return
        try:
            await connection.send(request.encoded)
            head = await connection.read_head(request.method)
            if head.status == 200:
                await connection.read(self._rng.randrange(1, 100_000))
            connection.reset()
        except (ConnectionError, AttributeError):  # it was gone before we could go: there is no socket to reset
            return

    async def send_partly(self, request: ClientRequest, body: int) -> None:
        """Sends a request without the end of its body, which has so many bytes, and resets the connection."""
        client = self._server.client(self._rng)
        encoded = request.encoded
        try:
            connection = await client.open()
        except OSError:
            return
        with contextlib.suppress(ConnectionError, AttributeError):  # as above
            await connection.send(encoded[: len(encoded) - self._rng.randrange(1, body + 1)])
            await asyncio.sleep(self._rng.random() * 0.1)
            connection.reset()
        self._oracle.done["broken off in the body"] += 1

    async def close(self) -> None:
        for connection in self._kept.values():
            await connection.close()

    async def _exchange(self, client: RawClient, request: Sequence[ClientRequest], *, keep: bool) -> list[RawAnswer]:
        try:
            connection = (self._kept.pop(client.address, None) if keep else None) or await client.open()
        except OSError:
            return [self._record(each, _BROKEN) for each in request]
        with contextlib.suppress(ConnectionError):  # an answer may have come before the end
            await connection.send(b"".join(each.encoded for each in request))
        answers: list[RawAnswer] = []
        stays = True
        for each in request:
            answer = await connection.answer(each.method) if stays else _BROKEN
            answers.append(self._record(each, answer))
            stays = stays and not answer.aborted and answer.headers.get("Connection", "").lower() != "close"
        if keep and stays and client.address not in self._kept:
            self._kept[client.address] = connection
        else:
            await connection.close()
        return answers

    def _record(self, request: ClientRequest, answer: RawAnswer) -> RawAnswer:
        self._oracle.done[f"{request.method} {'broken off' if answer.aborted else answer.status}"] += 1
        return answer
