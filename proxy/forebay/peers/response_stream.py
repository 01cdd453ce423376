"""The response of a streaming method, as its caller reads it: a document, and then bytes or documents.

document ──> bytes, bytes, ... ──> end         over the connection, which carries another call afterwards
whole                                          a small response: one frame, with all bytes; the connection is free
"""

from collections.abc import Callable
from typing import NamedTuple

from forebay.core.errors import OriginBroken, OriginError, PeerUnavailable, Throttled
from forebay.origin.reads.read_outcomes import ReadBody
from forebay.peers.frames import Channel, Document
from forebay.peers.liveness import Heartbeat
from forebay.peers.peer_codec import decode_failure


class IdleChannel(NamedTuple):
    """A connection that carries no call."""

    channel: Channel
    awaits_end: bool = False
    """Whether the end of the last response is still to be received: its bytes were."""


class ResponseStream:
    """The rest of a response after its first document: frames, or bytes that have come with it. Implements
    forebay.origin.reads.read_outcomes.BodySource."""

    def __init__(self, channel: Channel, heartbeat: Heartbeat, keep: Callable[[IdleChannel], None]) -> None:
        """`keep`: takes the connection of a response that was read to its last byte."""
        self._channel = channel
        self._heartbeat = heartbeat
        self._keep = keep
        self._rest = memoryview(b"")
        """The bytes that came with the document and were not read."""
        self._left = -1
        """Bytes of the body that are still to come; -1: not known."""
        self._is_open = True
        self._is_whole = False
        """Whether nothing more is to be received."""

    def complete(self, payload: memoryview) -> None:
        """Makes a response whose bytes all came with its document."""
        self._rest, self._is_whole = payload, True
        self._end(awaits_end=False)

    def take_whole(self, length: int) -> memoryview | None:
        """Takes the whole body of `length` bytes, if it came with its document: the buffer is the caller's from then
        on."""
        if not self._is_whole or len(self._rest) != length:
            return None
        whole, self._rest = self._rest, self._rest[:0]
        return whole

    async def read_into(self, target: memoryview) -> int:
        """Reads bytes into the front of `target`. Returns how many; 0 at the end. Raises the error of the method, and
        OriginBroken if the worker ended."""
        count = min(len(self._rest), len(target))
        if count:
            target[:count] = self._rest[:count]
            self._rest = self._rest[count:]
        elif not self._is_whole and await self._has_more():
            try:
                count = await self._channel.receive_bytes(target)
            except PeerUnavailable as gone:
                raise _broken(gone) from None
        self._left -= count
        return count

    async def _has_more(self) -> bool:
        """Whether there are more bytes to receive. Raises as `read_into` does."""
        while not self._channel.bytes_left:
            try:
                frame = await self._channel.receive()
            except PeerUnavailable as gone:
                raise _broken(gone) from None
            if frame.kind == "document":
                failure = decode_failure(frame.document)
                if isinstance(failure, Throttled):  # the fetch is resumed without the owner
                    raise OriginBroken("the owner has no buffers")
                raise failure or OriginBroken("a document among bytes")
            if frame.kind != "bytes":
                self._end(awaits_end=False)
                return False
        return True

    def skip_turns(self) -> None:
        """Does nothing: to its owner this read is demand."""

    async def receive_document(self) -> Document | None:
        """Returns the next document; None at the end. Raises PeerUnavailable, and the error of the method."""
        if self._is_whole:
            return None
        frame = await self._channel.receive()
        if frame.kind == "end":
            self._end(awaits_end=False)
            return None
        return raise_for_failure(frame.document)

    def close(self) -> None:
        """Ends the call. The connection is closed unless all bytes of the body were read. May be called again."""
        if self._left == 0:
            self._end(awaits_end=True)
        elif self._is_open:
            self._is_open = False
            self._heartbeat.unwatch(self._channel)
            self._channel.close()

    def _end(self, *, awaits_end: bool) -> None:
        if self._is_open:
            self._is_open = False
            self._heartbeat.unwatch(self._channel)
            self._keep(IdleChannel(self._channel, awaits_end))

    def body(self, length: int) -> ReadBody:
        """Returns the bytes as a body of `length` bytes, which is not resumed."""
        self._left = length
        return ReadBody(self, length, _no_resumption)


def raise_for_failure(response: Document) -> Document:
    """Returns a response; raises the failure that it is."""
    failure = decode_failure(response)
    if failure is not None:
        raise failure
    return response


async def _no_resumption(failure: OriginError) -> ResponseStream:
    raise failure


def _broken(gone: PeerUnavailable) -> OriginBroken:
    return OriginBroken(f"the owner went away: {gone}")
