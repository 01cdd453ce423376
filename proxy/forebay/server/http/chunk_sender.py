"""The chunks of a response that aiohttp has begun, written past aiohttp and without a copy.

    in memory   by the transport               what the client does not take yet waits there, referred to
    in a file   by the kernel (sendfile)       while the transport has nothing to write, so nothing overtakes anything

Where the client takes no more of a file, the transport gets a few bytes of the rest, copied: it reports when they have
left.

A client on this machine takes what the kernel has as fast as that can copy it. For such a one the kernel would let its
buffer grow to megabytes, which leave the processor's caches before they are read: it is kept small.

TLS copies what it encrypts, at once: there parts are in memory, and all of a chunk is one `writelines`. HTTP/1.0 has no
chunks.

RFC 9112 section 7.1
https://man7.org/linux/man-pages/man7/socket.7.html (SO_SNDBUF)
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from forebay.core.buffers import Buffer
from forebay.protocol.exchange import BodyPart
from forebay.server.fastpath.direct_reply import TAIL_SIZE, ReplyConnection
from forebay.server.http.socket_writes import send_file_now

TURN_SIZE: Final = 1 << 20
"""Bytes of a file that are sent in one turn of the loop: a fast client takes them without a pause."""
LOCAL_BUFFER: Final = 256 << 10
"""Bytes that the kernel may hold for a client on this machine; it reserves as much again for itself."""


class ChunkSender:
    """Implements forebay.protocol.exchange.ChunkWriter, for one request."""

    def __init__(self, request: web.BaseRequest, connection: ReplyConnection, *, is_local: bool) -> None:
        """`is_local`: the client is on this machine."""
        self._request, self._connection = request, connection
        self._is_local = is_local
        self._is_secure = connection.secure
        self._fd = -1

    @property
    def has_files(self) -> bool:
        """See ChunkWriter."""
        return not self._is_secure

    async def write(self, parts: Sequence[BodyPart], size: int) -> None:
        """Sends a chunk."""
        if self._fd < 0 and (transport := self._connection.transport) is not None:
            self._request.writer.send_headers()  # which aiohttp holds back until it writes a body
            own = transport.get_extra_info("socket")
            if not self._is_secure:
                transport.set_write_buffer_limits(0)  # `drain` waits until nothing is left, and referred to
            if self._is_local and not self._is_secure:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LOCAL_BUFFER)
            self._fd = own.fileno()
        pieces: list[Buffer | bytes] = [b"%x\r\n" % size]
        for part in parts:
            if isinstance(part, tuple):
                await self._write(pieces)
                pieces.clear()
                await self._send_file(part[0].fd, part[1], part[2])
            else:
                pieces.append(part)
        pieces.append(b"\r\n")
        await self._write(pieces)

    async def _write(self, pieces: Sequence[Buffer | bytes]) -> None:
        transport = self._connection.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has left")
        if len(pieces) == 1:
            transport.write(pieces[0])
        else:
            transport.writelines(pieces)
        if self._connection.writing_paused:
            await self._connection.drain()

    async def _send_file(self, file: int, start: int, stop: int) -> None:
        connection = self._connection
        while start < stop:
            if connection.writing_paused:
                await connection.drain()
            sent = send_file_now(connection.transport, self._fd, file, start, min(stop, start + TURN_SIZE))
            start += sent
            if sent:
                await asyncio.sleep(0)
            else:
                rest = os.pread(file, min(TAIL_SIZE, stop - start), start)
                start += len(rest)
                await self._write((rest,))
