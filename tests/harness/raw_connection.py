"""One HTTP/1.1 connection that hides nothing: header order, bytes, how an answer ended.

For tests that read slowly, leave in the middle, or send what no library would send. It decides nothing: no retries,
no redirects, no reconnecting.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from multidict import CIMultiDict, CIMultiDictProxy

_LIMIT = 1 << 20  # the longest head and the read-ahead of the stream


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """`aborted`: the connection ended before the body was whole, or before there was a head (then status is 0)."""

    status: int
    pairs: tuple[tuple[str, str], ...]
    """The headers in their order and spelling."""
    body: bytes = b""
    aborted: bool = False

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        return CIMultiDictProxy(CIMultiDict(self.pairs))


class RawConnection:
    """An open connection. Ended by `async with`, `close` or `reset`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._left: int | None = 0
        """Bytes of the body still to come; None: until the connection ends, or chunked."""
        self._chunked = False

    @classmethod
    async def open(
        cls, host: str, port: int, receive_buffer: int | None = None, tls: ssl.SSLContext | None = None
    ) -> Self:
        """`receive_buffer`: bytes that the kernel takes for us, small for a reader that is to be felt as slow."""
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
            limit = _LIMIT if receive_buffer is None else max(receive_buffer, 1 << 16)
            name = host if tls is not None else None
            return cls(*await asyncio.open_connection(sock=sock, limit=limit, ssl=tls, server_hostname=name))
        except BaseException:
            sock.close()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(self, wire: bytes) -> None:
        """ConnectionError: the other side has closed."""
        self._writer.write(wire)
        await self._writer.drain()

    async def half_close(self) -> None:
        """We have said all; we still listen."""
        self._writer.write_eof()

    async def read_head(self, method: str = "GET") -> RawAnswer:
        """The next answer's head, 1xx skipped. Status 0 and `aborted` when the connection ended before it."""
        while True:
            try:
                raw = await self._reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return RawAnswer(0, (), aborted=True)
            first, *lines = raw[:-4].decode("latin-1").split("\r\n")
            status = int(first.split(" ", 2)[1])
            if status >= 200:
                break
            if status == 100 and method == "100-continue":
                return RawAnswer(status, ())
        pairs = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
        answer = RawAnswer(status, pairs)
        self._chunked = "chunked" in answer.headers.get("Transfer-Encoding", "").lower()
        length = answer.headers.get("Content-Length")
        if method == "HEAD" or status in {204, 304}:
            self._left, self._chunked = 0, False
        else:
            self._left = int(length) if length is not None and not self._chunked else None
        return answer

    async def read(self, count: int) -> bytes:
        """The next `count` bytes of the body, fewer only at its end or when the connection ended. Not for chunked."""
        wanted, body = count if self._left is None else min(count, self._left), bytearray()
        try:
            # Not readexactly: it forgets what had come before a reset.
            while len(body) < wanted and (piece := await self._reader.read(wanted - len(body))):
                body += piece
        except ConnectionError:
            pass
        if self._left is not None:
            self._left -= len(body)
        return bytes(body)

    async def read_rest(self) -> tuple[bytes, bool]:
        """The rest of the body, and whether it was cut short."""
        if self._chunked:
            return await self._read_chunks()
        if self._left is None:
            try:
                return await self._reader.read(-1), False
            except ConnectionError:
                return b"", True
        wanted = self._left
        body = await self.read(wanted)
        return body, len(body) < wanted

    async def _read_chunks(self) -> tuple[bytes, bool]:
        body = bytearray()
        try:
            while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
                body += (await self._reader.readexactly(size + 2))[:-2]
            while await self._reader.readuntil(b"\r\n") != b"\r\n":
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            return bytes(body), True
        self._left, self._chunked = 0, False
        return bytes(body), False

    async def answer(self, method: str = "GET") -> RawAnswer:
        """The next answer, whole."""
        head = await self.read_head(method)
        if head.aborted:
            return head
        body, short = await self.read_rest()
        return RawAnswer(head.status, head.pairs, body, short)

    async def ended(self) -> bool:
        """Waits for the other side to end the connection. False if it sent something instead."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        """In good order (FIN)."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    def reset(self) -> None:
        """At once (RST), as a client that crashed."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


def head_bytes(method: str, target: str, pairs: Sequence[tuple[str, str]]) -> bytes:
    """A request's head as it stands on the wire, nothing added."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
