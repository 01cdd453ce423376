"""Writes a response to the connection, byte by byte as its faults require.

aiohttp parses requests and owns connections; its responses are not used, because they can't be made to lie about
their length. So what is handed back to aiohttp is a `SentResponse`, which says only whether the connection lives on.
"""

import gzip
import socket
import struct
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

from forebay.core.byte_ranges import Span
from harness.fake.actions import (
    Action,
    AnnounceLength,
    ChangeHeaders,
    ChunkedBody,
    CloseAfter,
    CloseWhenDone,
    Compress,
    Garbage,
    HoldAfter,
    HoldHead,
    LongerBody,
    ResetAfter,
    Rewrite,
    Throttle,
    WrongTotal,
)
from harness.fake.request_log import LoggedRequest
from harness.fake.response_bytes import ResponseBytes
from harness.fake.responses import Answer, http_date

_SMALL = 64 << 10  # up to here head and body go in one write
_SLICE = 256 << 10
_LINGER_NONE = struct.pack("ii", 1, 0)
_REASONS = {each.value: each.phrase for each in HTTPStatus}


class SentResponse(web.StreamResponse):
    """A response that has been written already."""

    def __init__(self, keep_alive: bool) -> None:
        super().__init__()
        self._lives = keep_alive

    @property
    def keep_alive(self) -> bool:
        return self._lives

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes | bytearray | memoryview = b"") -> None:
        return None


def close_connection(request: web.BaseRequest, reset: bool) -> SentResponse:
    """Ends the connection: in good order (after what was written), or with RST."""
    transport = request.transport
    if transport is not None:
        if reset:
            sock: socket.socket = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            transport.abort()
        else:
            transport.close()
    return SentResponse(keep_alive=False)


def apply_response_faults(answer: Answer, actions: Sequence[Action]) -> Answer:
    """The faults that change an answer before it is sent."""
    for action in actions:
        match action:
            case ChangeHeaders(changed, dropped):
                answer = answer.with_headers(*dropped, **dict(changed))
            case WrongTotal(total):
                label = dict(answer.headers).get("Content-Range", "").rpartition("/")[0]
                answer = answer.with_headers(content_range=f"{label}/{total}") if label else answer
            case Compress():
                body = gzip.compress(b"".join(answer.content.views(answer.start, answer.stop)), mtime=0)
                answer = answer.with_headers(content_encoding="gzip").with_body(body)
            case _:
                pass
    return answer


def _slices(answer: Answer, span: Span, size: int) -> Iterator[memoryview]:
    for view in answer.content.views(span.start, span.stop):
        for at in range(0, view.nbytes, size):
            yield view[at : at + size]


class Delivery:
    """One answer on its way."""

    def __init__(
        self,
        request: web.BaseRequest,
        answer: Answer,
        actions: Sequence[Action],
        entry: LoggedRequest,
        now: int,
        server_headers: Sequence[str],
    ) -> None:
        self._request, self._answer, self._actions, self._entry, self._now = request, answer, actions, entry, now
        self._server_headers = server_headers
        self._chunked = self._find_action(ChunkedBody) is not None and not answer.bodiless
        self._shape = self._find_action(Throttle)

    def _find_action(self, kind: type[Any]) -> Any:
        return next((action for action in self._actions if isinstance(action, kind)), None) if self._actions else None

    def _head(self) -> bytes:
        answer, keep = self._answer, self._request.keep_alive
        announced = self._find_action(AnnounceLength)
        lines = [
            f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Unknown')}",
            *self._server_headers,
            f"Date: {http_date(self._now)}",
            *(f"{name}: {value}" for name, value in answer.headers),
        ]
        if self._chunked:
            lines.append("Transfer-Encoding: chunked")
        elif answer.status not in {204, 304}:
            lines.append(f"Content-Length: {answer.length if announced is None else announced.length}")
        if not keep:
            lines.append("Connection: close")
        return "\r\n".join((*lines, "\r\n")).encode()

    async def _write(self, body: memoryview) -> None:
        writer = self._request.writer
        if self._chunked:
            await writer.write(b"%x\r\n" % body.nbytes)
        await writer.write(body)
        if self._chunked:
            await writer.write(b"\r\n")
        self._entry.bytes_sent += body.nbytes
        if self._shape is not None:
            await self._shape.pause(self._shape.tick)

    async def _body(self, span: Span) -> None:
        size = max(1, int(self._shape.rate * self._shape.tick)) if self._shape else _SLICE
        for view in _slices(self._answer, span, size):
            await self._write(view)

    async def _drained(self) -> None:
        """Waits until the kernel has every byte, so that a reset comes after them and not instead."""
        transport = self._request.transport
        if transport is not None:
            transport.set_write_buffer_limits(high=0)
            await self._request.writer.drain()

    async def _send_rewritten(self, rewrite: Rewrite) -> SentResponse:
        request, answer = self._request, self._answer
        first, *lines = self._head().decode().removesuffix("\r\n\r\n").split("\r\n")
        body = b"" if answer.bodiless else b"".join(answer.content.views(answer.start, answer.stop))
        pairs = tuple((name, value) for name, _, value in (line.partition(": ") for line in lines))
        response = rewrite.change(ResponseBytes(request.method, first, pairs, body))
        for number, segment in enumerate(response.segments()):
            if number:
                await self._drained()
                await response.pause(response.interval)
            await request.writer.write(segment)
        if response.gate is not None:
            await response.gate.wait_open()
        if response.ending == "keep":
            return SentResponse(request.keep_alive)
        await self._drained()
        return close_connection(request, reset=response.ending == "reset")

    async def send(self) -> SentResponse:
        """ConnectionError: the client has gone."""
        request, answer, actions = self._request, self._answer, self._actions
        if (garbage := self._find_action(Garbage)) is not None:
            await request.writer.write(garbage.wire)
            return close_connection(request, reset=False)
        if (held := self._find_action(HoldHead)) is not None:
            await held.gate.wait_open()
        self._entry.status = answer.status
        if (rewrite := self._find_action(Rewrite)) is not None:
            return await self._send_rewritten(rewrite)
        length = 0 if answer.bodiless else answer.length
        if not actions and length <= _SMALL:
            self._entry.bytes_sent = length
            await request.writer.write(
                b"".join((self._head(), *answer.content.views(answer.start, answer.start + length)))
            )
            return SentResponse(request.keep_alive)
        await request.writer.write(self._head())
        stations = [each for each in actions if isinstance(each, HoldAfter | CloseAfter | ResetAfter)]
        at = answer.start
        for station in sorted(stations, key=lambda each: each.count):
            stop = answer.start + min(station.count, length)
            await self._body(Span(at, max(at, stop)))
            at = max(at, stop)
            match station:
                case HoldAfter(_, gate):
                    await gate.wait_open()
                case CloseAfter():
                    return close_connection(request, reset=False)
                case ResetAfter():
                    await self._drained()
                    return close_connection(request, reset=True)
        await self._body(Span(at, answer.start + length))
        if (longer := self._find_action(LongerBody)) is not None:
            await self._write(memoryview(longer.extra))
        if self._chunked:
            await request.writer.write(b"0\r\n\r\n")
        if any(isinstance(each, AnnounceLength | LongerBody | CloseWhenDone) for each in actions):
            return close_connection(request, reset=False)
        return SentResponse(request.keep_alive)


async def deliver(
    request: web.BaseRequest,
    answer: Answer,
    actions: Sequence[Action],
    entry: LoggedRequest,
    now: float,
    server_headers: Sequence[str],
) -> SentResponse:
    """Sends the answer with its faults. `server_headers`: the header lines that every answer of this server has.

    ConnectionError: the client has gone.
    """
    return await Delivery(
        request, apply_response_faults(answer, actions), actions, entry, int(now), server_headers
    ).send()
