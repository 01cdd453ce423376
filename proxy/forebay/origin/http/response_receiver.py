"""Receives the responses of one connection: the side of forebay.origin.http.http_connection that the loop calls.

The kernel receives the bytes of a counted body straight into the reader's own buffer (`read_into`). The connection
holds only the bytes that arrived along with the head. Other bodies (refusals in the chunked coding, responses that end
with the connection) go through the same buffer.

The head, and what arrives along with it, is received into a buffer that all connections of the loop share
(`ReceiveBuffer`): the bytes are taken out of it before anything else runs. A small object mostly arrives whole with its
head, and is copied out once into the buffer that it is kept in (`buffered_body`).

A large body that background work waits for is received into memory that is made when its head has come, and nobody
wakes before its end (`forebay.origin.http.large_body`).

Back-pressure: without a reader, bytes that fit beside the head are received; then reading from the socket pauses. It
also pauses behind AT_ONCE bytes of a body, until the reader asks for more. The loop calls the transport's side of all
connections before anything else runs, hits included. So these methods do little more than take the bytes out.
"""

from typing import Final, cast

from forebay.core.errors import MalformedHttp
from forebay.origin.http.chunked_decoder import ChunkedDecoder
from forebay.origin.http.large_body import WHOLE_LIMIT
from forebay.origin.http.receive_buffer import RECEIVED_BESIDE_DEMAND, ReceiveBuffer
from forebay.origin.http.receive_wait import ReceiveWait
from forebay.origin.http.response_head import MAX_HEAD, ResponseHead, first_head, head_size, matched_head
from forebay.origin.http.transport_errors import malformed_response

_BUFFER_SIZE: Final = 16 * 1024
"""Bytes for a head that does not arrive at once, and for bodies that are not simply counted."""
EMPTY: Final = bytearray()


class ResponseReceiver(ReceiveWait):
    """See the module. Its user's side is HttpConnection's."""

    def __init__(self, shared: ReceiveBuffer) -> None:
        """`shared`: the loop's buffer. It may be replaced before a request."""
        super().__init__()
        self.shared = shared
        self._buffer: bytearray | memoryview = EMPTY
        """The bytes that were received and not yet read, from `_start` to `_stop`."""
        self._start = self._stop = 0
        self._method = ""
        self._head: ResponseHead | None = None
        self._has_raw_head = False
        """Whether the buffer begins with a whole head that was not parsed yet."""
        self._left = 0
        """Bytes of a counted body that the reader has not had."""
        self._chunked: ChunkedDecoder | None = None
        self._target: memoryview | None = None
        self._pauses = False
        self.ended = True
        """Whether the response was received to its last byte, or there is none."""

    def close(self) -> None:
        """Aborts the connection. May be called at any time, and again."""
        raise NotImplementedError

    def get_buffer(self, sizehint: int) -> memoryview:
        """The reader's buffer if it waits for counted bytes; else the connection's own, or the shared one if that is
        empty."""
        if self._target is not None:
            return self._target
        stop = self._stop
        if stop >= len(self._buffer):
            return self.shared.view
        if self._large is not None and isinstance(self._buffer, memoryview):
            self._at_once = self._large.take_part()
        return memoryview(self._buffer)[stop : stop + self._at_once]

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` were received into the buffer."""
        if self._target is not None:
            # The reader is awake from now on, and passes another target when it wants more.
            is_full, self._target = nbytes == len(self._target), None
            self._left -= nbytes
            self._wake(nbytes)
            if (is_full or self._pauses) and self._left:
                self._pause()  # else the transport goes on reading at once
            return
        if self.ended:
            self.close()  # bytes that belong to no response
            return
        if self._head is None:
            self._receive_head(nbytes)
            return
        if not self._append(nbytes):
            self._keep(self.shared.received, 0, nbytes)
        if not self._wake_reader():
            self._end_part(nbytes)
        if self._buffer and self._stop == len(self._buffer) and not self._is_here:
            self._pause()

    def _append(self, nbytes: int) -> bool:
        """Appends `nbytes` to the connection's own buffer. False: it has none, and the bytes are in the shared
        buffer."""
        if not self._buffer:
            return False
        if self._stop == len(self._buffer):  # behind a whole head, or all of a body
            self._buffer = EMPTY.join((self._buffer, self.shared.view[:nbytes]))
        self._stop += nbytes
        return True

    def _wake_reader(self) -> bool:
        """Wakes the reader, unless it waits for the rest of a small body, or one with room. Returns whether it did."""
        waits = self._on_ready is not None and self._stop < self._left
        if waits and (self._left <= WHOLE_LIMIT or isinstance(self._buffer, memoryview)):
            return False
        self._wake(0)
        return True

    @property
    def _is_here(self) -> bool:
        """Whether all of a counted body was received, and nothing behind it."""
        return self._head is not None and 0 < self._left == self._stop

    def _receive_head(self, nbytes: int) -> None:
        """Appends `nbytes` of a head and of the bytes behind it. Wakes the reader once the head is whole."""
        head, received = None, self.shared.received
        if self._puts_off_head(nbytes):
            return
        if self._on_ready is not None and self._templates is not None and not self._buffer:
            head = matched_head(received, nbytes, self._templates)
        if head is not None:
            self._begin_body(head, received, len(head.text), nbytes)
        elif not self._keep_head(nbytes):
            return
        if not self._wake_reader():
            self._end_part(nbytes)
        elif self._stop >= len(received):
            self._pause()

    def _puts_off_head(self, nbytes: int) -> bool:
        """Defers the parsing of a whole head in front of a large body to a step of its own, as many may arrive
        together. Returns whether it does."""
        if nbytes < RECEIVED_BESIDE_DEMAND or self._large is None or self._on_ready is None or self._buffer:
            return False
        kept = self.shared.received[:nbytes]
        try:
            self._has_raw_head = head_size(kept, 0, nbytes) > 0
        except MalformedHttp:
            return False
        if self._has_raw_head:
            self._buffer, self._stop = kept, nbytes
            self._pause()
            self._loop.call_soon(self._take_head)
        return self._has_raw_head

    def _take_head(self) -> None:
        """Parses a deferred head, unless the reader has done so, or the connection has ended."""
        if not self._has_raw_head or self._on_ready is None or self._transport is None:
            return
        kept, stop = cast("bytearray", self._buffer), self._stop
        head = matched_head(kept, stop, self._templates) if self._templates is not None else None
        if head is not None:
            self._has_raw_head = False
            self._begin_body(head, kept, len(head.text), stop)
        else:
            self._parse_head()
        if self._head is None:
            self._resume()  # it was informational, or malformed
        elif not self._wake_reader():
            self._end_part(0)

    def _keep_head(self, nbytes: int) -> bool:
        """Appends `nbytes` of a head and of the bytes behind it. Returns whether the reader is to be woken."""
        if not self._append(nbytes):
            self._buffer, self._stop = self.shared.received[:nbytes], nbytes
        try:
            self._has_raw_head = self._has_raw_head or head_size(cast("bytearray", self._buffer), 0, self._stop) > 0
        except MalformedHttp:
            self._fail(malformed_response)
            self.close()
            return False
        if not self._has_raw_head:
            if self._stop == len(self._buffer):
                self._keep(cast("bytearray", self._buffer), 0, self._stop)  # with room for the rest
            return False
        if self._on_ready is not None:
            self._parse_head()
            return self._head is not None  # else that was informational, or malformed
        return True

    def _parse_head(self) -> None:
        """Parses the head at the front of the buffer, and keeps the bytes behind it."""
        self._has_raw_head = False
        received, stop = cast("bytearray", self._buffer), self._stop
        try:
            head, start = first_head(received, 0, stop, self._method)
        except MalformedHttp:
            self._fail(malformed_response)
            self.close()
            return
        if head is not None:
            self._begin_body(head, received, start, stop)
            return
        self._buffer, self._stop = EMPTY, 0
        if stop > start:
            self._keep(received, start, stop)

    def _begin_body(self, head: ResponseHead, received: bytearray, start: int, stop: int) -> None:
        """Takes a parsed head, and keeps the bytes behind it."""
        self._head = head
        self._left = head.body_length if isinstance(head.body_length, int) else 0
        self._chunked = ChunkedDecoder() if head.body_length == "chunked" else None
        large, count = self._large, stop - start
        room = large.make_room(head) if large is not None and count < self._left > WHOLE_LIMIT else None
        if room is not None:
            room[:count] = memoryview(received)[start:stop]
            self._buffer, self._stop = room, count
        elif count:
            self._keep(received, start, stop)
        else:
            self._buffer, self._stop = EMPTY, 0

    def _keep(self, received: bytearray, start: int, stop: int) -> None:
        """Keeps these bytes in a buffer of the connection's own, with room for more. A new one: the transport still
        holds the last one. All of a body has no room behind it: whoever takes it keeps it as it is."""
        self._stop = stop - start
        if self._head is not None and self._left == self._stop:
            self._buffer = received[start:stop]
            return
        if self._on_ready is not None and self._stop < self._left <= WHOLE_LIMIT:
            room = self._left - self._stop
        elif self._head is None and self._stop >= _BUFFER_SIZE // 2:
            room = MAX_HEAD - self._stop  # a long head; head_size says when it is too long
        else:
            room = max(1, _BUFFER_SIZE - self._stop)
        self._buffer = received[start:stop] + bytes(room)
