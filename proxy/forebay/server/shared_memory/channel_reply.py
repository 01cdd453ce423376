"""The reply to a missed read on a read channel.

start ──slot free──> write: each piece is copied to a slot of the client's ring ──> finish: one frame announces it
  └──────no slot───> an INLINE frame, then the response through the socket, as on any connection
"""

from collections.abc import Callable
from typing import Final, Protocol

from forebay.core.buffers import Buffer
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.protocol.channel_frames import FRAME, INLINE
from forebay.server.fastpath.direct_reply import MAX_JOINED_SIZE, DirectReply, ReplyConnection
from forebay.server.shared_memory.client_ring import ClientRing


class RingConnection(ReplyConnection, Protocol):
    """The channel of a reply."""

    def allocate(self, length: int) -> tuple[ClientRing, int] | None:
        """Returns the ring and the position of a free slot for `length` bytes; None if no slot is free."""
        ...

    def count_inline(self) -> None:
        """Counts a read whose body went through the socket."""
        ...

    def announce(self, head: bytes, position: int, length: int) -> None:
        """Sends a response's head and the place of its body, a slot. Raises ConnectionError."""
        ...


class ChannelReply(DirectReply):
    """See the module. Every object has a known size, so a body of unknown length aborts the connection."""

    __slots__ = ("_channel", "_end", "_length", "_ring", "_slot")

    def __init__(
        self,
        connection: RingConnection,
        record: RequestRecord,
        is_last: Callable[[], bool],
        isolation: HeaderPairs,
        *,
        is_head: bool,
    ) -> None:
        """See DirectReply."""
        super().__init__(connection, record, is_last, isolation, is_head=is_head)
        self._channel: Final = connection
        self._ring: ClientRing | None = None
        self._slot = self._end = self._length = 0

    def send_interim(self) -> None:
        """Sends nothing: the channel has no frame for interim responses. The client repeats the read over HTTP."""

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        """Makes the head, and allocates a slot for the body. Raises ConnectionError."""
        await super().start(status, headers, length)
        if self._chunked:
            self.abort()
            raise ConnectionAbortedError("a body of unknown length")
        found = self._channel.allocate(self._left) if self._left > MAX_JOINED_SIZE else None
        if found is not None:
            self._ring, self._slot = found
            self._end, self._length = self._slot, self._left
        else:
            self._head = FRAME.pack(INLINE, 0, 0, 0, 0, len(self._head) + self._left) + self._head

    async def write(self, buffer: Buffer | bytes) -> None:
        """Writes a piece of the body. Raises ConnectionError."""
        if self._ring is None:
            await super().write(buffer)
        else:
            self.accept(memoryview(buffer))

    def accept(self, piece: Buffer) -> int:
        """Copies the whole piece to the slot, or sends its front. Returns how many bytes were accepted."""
        if self._ring is None:
            return super().accept(piece)
        self._live_transport()
        if len(piece) > self._left:
            raise ConnectionAbortedError("another length than was announced")
        self._ring.copy(self._end, (piece,))
        self._end += len(piece)
        self._left -= len(piece)
        return len(piece)

    @property
    def is_blocked(self) -> bool:
        """Whether the client accepts no bytes for now. A slot always has room."""
        return self._ring is None and super().is_blocked

    async def finish(self) -> None:
        """Ends the response. Raises ConnectionError if the body is shorter than its announced length."""
        if self._ring is None or self._left:
            await super().finish()
            self._channel.count_inline()
        else:
            self._channel.announce(self._head, self._slot, self._length)
