"""Relayed openings: direct openings of objects that another worker owns. No task waits, at either end.

    send ──frame──> owner (server.rpc.opening_answers) ──> all of the object: taken over in a turn of the loop
                                                       └──> refused, or the owner went away: the reader's task goes on

One connection to each owner carries them all, in any order (peers.opening_frames). It is made for the first opening;
until it is there, reads take a task. The owner refuses openings that are not plain: then the reader's task calls the
owner (peers.owners), and joins the lookup that the owner has begun.

An owner that hangs is given up as for any call (peers.liveness).
"""

import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.errors import ForebayError, PeerUnavailable
from forebay.core.fences import RequestTime
from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.peers.frames import Channel, Spawn
from forebay.peers.liveness import Heartbeat
from forebay.peers.opening_frames import (
    OpeningAnswer,
    OpeningConnection,
    decode_answer,
    encode_request,
    number_of,
)

KIND: Final = "openings"
"""The kind in the first document of the connection."""

MakeRoom: TypeAlias = Callable[[int], memoryview | None]
"""Returns a buffer for so many bytes of a large object; None: there is none."""

_log = logging.getLogger(__name__)


class RelayedRead:
    """One opening at its owner, until it is answered, refused or closed."""

    __slots__ = ("_connection", "_is_closed", "_number", "_on_ready", "answer", "make_room", "requested", "span")

    def __init__(
        self,
        connection: "_OwnerConnection",
        number: int,
        span: Span,
        requested: RequestTime,
        on_ready: Callable[[], None],
        make_room: MakeRoom,
    ) -> None:
        self._connection, self._number = connection, number
        self._on_ready, self.make_room = on_ready, make_room
        self._is_closed = False
        self.span, self.requested = span, requested
        self.answer: OpeningAnswer | None = None
        """None: refused, or not answered yet."""

    def end(self, answer: OpeningAnswer | None) -> None:
        """Notes that the owner has answered, or never will."""
        if not self._is_closed:
            self.answer = answer
            self._on_ready()

    @property
    def head(self) -> Head | None:
        """The head of the answer; None: refused, or not answered."""
        return self.answer.head if self.answer is not None else None

    @property
    def was_kept(self) -> bool:
        """Whether the owner had the object, fresh, before the request."""
        return self.answer is not None and self.answer.was_kept

    def take_whole(self) -> memoryview | None:
        """Takes the bytes of the answer."""
        return self.answer.body if self.answer is not None else None

    def close(self) -> None:
        """Drops the answer, if it has yet to come."""
        self._is_closed = True
        self._connection.forget(self._number)


class RelayedOpenings:
    """Openings at one owner. `connect` makes a connection, `heartbeat` is of the same worker."""

    def __init__(self, connect: Callable[[], Awaitable[Channel]], heartbeat: Heartbeat, spawn: Spawn) -> None:
        self._connect, self._heartbeat, self._spawn = connect, heartbeat, spawn
        self._connection: _OwnerConnection | None = None
        self._channel: Channel | None = None
        self._is_connecting = False

    def send(
        self,
        name: ObjectName,
        span: Span,
        requested: RequestTime,
        on_ready: Callable[[], None],
        make_room: MakeRoom,
    ) -> RelayedRead | None:
        """Asks the owner for the first `span` of an object; None where that would have to be waited for.

        `requested`: the time, from before it is sent. `on_ready`: called once, unless it is closed before. `make_room`:
        called before the bytes of a large object are received.
        """
        connection = self._connection
        if connection is None or connection.transport is None:
            if not self._is_connecting:
                self._is_connecting = True
                self._spawn(self._open(), "connection for openings")
            return None
        if connection.is_full or self._heartbeat.is_silent:
            return None
        return connection.send(name, span, requested, on_ready, make_room)

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.abort()

    async def _open(self) -> None:
        try:
            channel = await self._connect()
            try:
                await channel.send({"kind": KIND})
                await channel.receive_document()
                connection = _OwnerConnection(self._heartbeat)
                channel.hand_over(connection)
            except BaseException:
                channel.abort()
                raise
            self._channel, self._connection = channel, connection
        except PeerUnavailable as gone:
            _log.debug("no connection for openings: %s", gone)
        finally:
            self._is_connecting = False


class _OwnerConnection(OpeningConnection):
    """The calling end. Watched for an owner that hangs, while something is wanted of it."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        super().__init__()
        self._heartbeat = heartbeat
        self._numbers = itertools.count()
        self._under_way: dict[int, RelayedRead] = {}
        self.frames_received = 0

    def send(
        self,
        name: ObjectName,
        span: Span,
        requested: RequestTime,
        on_ready: Callable[[], None],
        make_room: MakeRoom,
    ) -> RelayedRead:
        number = next(self._numbers) & 0xFFFFFFFF
        self.write(encode_request(number, name, span.stop))
        if not self._under_way:
            self._heartbeat.watch(self)
        read = self._under_way[number] = RelayedRead(self, number, span, requested, on_ready, make_room)
        return read

    def forget(self, number: int) -> RelayedRead | None:
        read = self._under_way.pop(number, None)
        if not self._under_way:
            self._heartbeat.unwatch(self)
        return read

    def make_room(self, received: bytes, start: int, size: int) -> memoryview | None:
        number = number_of(received, start, len(received))
        read = self._under_way.get(number)
        if read is None:
            return None
        room = read.make_room(size)
        if room is None:  # its bytes are dropped, and the reader's task goes on
            self.forget(number)
            self._loop.call_soon(read.end, None)
        return room

    def frame_received(self, received: bytes, start: int, stop: int, body: memoryview | None) -> None:
        self.frames_received += 1
        read = self.forget(number_of(received, start, stop))
        if read is None:
            return
        try:
            answer = decode_answer(received, start, stop, body)
        except ForebayError:
            read.end(None)
            raise
        read.end(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._heartbeat.unwatch(self)
        under_way, self._under_way = self._under_way, {}
        for read in under_way.values():
            self._loop.call_soon(read.end, None)
