"""One HTTP/1.1 connection to the origin: requests without a body, one at a time, and nothing decoded.

    idle ──send_request──> requested ──head──> responding ──last byte──> idle      (persistent: it may carry another)
                              └───────────────────┴── close, failure, not persistent ──> closed

Its purpose: the kernel receives the bytes of a counted body straight into the reader's own buffer (`read_into`);
nothing of them is held here, but for what arrived along with the head. Other bodies (refusals in the chunked coding,
responses that end with the connection) go through that buffer too.

The head, and what arrives along with it, is received into a buffer that all connections of the loop share
(`ReceiveBuffer`): the bytes are taken out of it before anything else runs. A small object mostly arrives whole with its
head, and is copied out once into the buffer that it is kept in (`buffered_body`).

A large body that background work waits for is received into memory that is made when its head has come, and nobody
wakes before its end (`forebay.origin.http.large_body`).

Back-pressure: while nobody reads, what fits beside the head is received; then reading from the socket pauses. It also
pauses behind AT_ONCE bytes of a body, until the reader asks for more. The loop calls the transport's side of all
connections before anything else runs, hits included. So little is done there but to take the bytes out.

Rules: the user of a connection owns it until it is idle or closed, and it becomes idle only in the owner's own turn of
the loop, so that nobody else has it before the owner knows; at most one `read_into` at a time; bytes that arrive while
it is idle belong to no response, and close it. Failures are raised as ConnectionFault. RFC 9112, 9.3.
"""

from collections.abc import Callable
from typing import Final, cast

from forebay.core.errors import MalformedHttp
from forebay.origin.http.chunked_decoder import ChunkedDecoder
from forebay.origin.http.large_body import AT_ONCE, WHOLE_LIMIT
from forebay.origin.http.receive_buffer import ReceiveBuffer
from forebay.origin.http.receive_wait import ReceiveWait
from forebay.origin.http.response_head import MAX_HEAD, ResponseHead, first_head, head_size, matched_head, parse_head
from forebay.origin.http.transport_errors import body_stalled, connection_lost, malformed_response, response_timed_out

_BUFFER_SIZE: Final = 16 * 1024
"""Bytes for a head that does not arrive at once, and for bodies that are not simply counted."""
_EMPTY: Final = bytearray()


class HttpConnection(ReceiveWait):
    """See the module. Connected by forebay.origin.http.connection_pool."""

    def __init__(
        self,
        on_idle: Callable[["HttpConnection"], None],
        on_closed: Callable[["HttpConnection"], None],
        shared: ReceiveBuffer,
    ) -> None:
        """`on_idle(self)`: a response has ended, and another request may follow. `on_closed(self)`: none may.
        `shared`: of the loop; another one may be put in its place before a request."""
        super().__init__()
        self._on_idle, self._on_closed, self.shared = on_idle, on_closed, shared
        self._buffer: bytearray | memoryview = _EMPTY
        """What was received and is not read yet, from `_start` to `_stop`."""
        self._start = self._stop = 0
        self._method = ""
        self._head: ResponseHead | None = None
        self._has_raw_head = False
        """Whether the buffer begins with a whole head that was not parsed yet."""
        self._left = 0
        self._chunked: ChunkedDecoder | None = None
        self._target: memoryview | None = None
        self._pauses = False
        self.ended = True
        """Whether the response was received to its last byte, or there is none."""
        self.idle_since = 0.0

    def __repr__(self) -> str:
        state = "closed"
        if self._transport is not None:
            state = "idle" if self.ended else "responding" if self._head else "requested"
        return f"<HttpConnection {state}, {self._left} bytes to come>"

    # The reader's side

    async def send_request(self, request: bytes, method: str, response_timeout: float) -> ResponseHead:
        """Send a request and return the head of its response, whatever its status. See `response_head`."""
        self.write_request(request, method)
        return await self.response_head(response_timeout)

    def write_request(self, request: bytes, method: str) -> None:
        """Send a request, without waiting for its response. ConnectionFault."""
        if self._transport is None or not self.ended:
            raise connection_lost(None)
        self._method, self._head, self._fault, self._large, self.ended = method, None, None, None, False
        self._transport.write(request)

    @property
    def whole_head(self) -> ResponseHead | None:
        """The head of the response, if all of its body has come, and nothing behind it."""
        return self._head if self._is_here and not self.ended else None

    async def response_head(self, response_timeout: float) -> ResponseHead:
        """The head of the response to the request that was written, whatever its status. ConnectionFault, also after
        `response_timeout` seconds."""
        self._on_ready = self._large = None
        while (head := self._head) is None:
            if self._has_raw_head:
                self._parse_head()
            else:
                self._resume()
                await self._wait(response_timeout, response_timed_out)
        if head.text:
            head = self._head = parse_head(head.text, self._method)
        if self._left != self._stop or not self._left:  # else all of a counted body is here, for `buffered_body`
            self._finish_if_complete()
        return head

    def buffered_body(self) -> memoryview | None:
        """The body, if all of it arrived along with the head: then it has ended, and the buffer is the caller's. Called
        before anything is read."""
        if self._head is None or not isinstance(self._head.body_length, int) or not 0 < self._left <= self._stop:
            return None
        body = memoryview(self._buffer)[: self._left]
        self._start, self._left = self._left, 0
        self._finish_if_complete()
        return body

    async def read_into(self, target: memoryview, stall_timeout: float, *, pauses: bool = False) -> int:
        """Receive at least one byte of the body into the front of `target`; returns how many, 0 at the end.

        ConnectionFault, also when nothing arrives for `stall_timeout` seconds. `target` is not written to once this has
        returned, raised or been cancelled. `pauses`: nothing more is received before the next call."""
        self._pauses = pauses
        while not self.ended:
            if self._stop > self._start:
                copied = self._read_buffered(target)
                if copied:
                    return copied
                continue
            if self._fault is not None:
                raise self._fault
            if self._chunked is None and self._head is not None and self._head.body_length != "close":
                self._target = target[: min(self._left, AT_ONCE)]
            self._resume()
            try:
                received = await self._wait(stall_timeout, body_stalled)
            finally:
                self._target = None
            if received:
                self._finish_if_complete()
                return received
        return 0

    def close(self) -> None:
        """Abort the connection. May be called at any time, and again."""
        transport, self._transport = self._transport, None
        if transport is not None:
            self._buffer, self._start, self._stop = _EMPTY, 0, 0
            self._deadline.end()
            transport.abort()
            self._on_closed(self)

    def _read_buffered(self, target: memoryview) -> int:
        """Read what arrived along with the head, or is not simply counted."""
        buffered = memoryview(self._buffer)[self._start : self._stop]
        if self._chunked is None:
            limit = self._left if self._head is None or self._head.body_length != "close" else len(buffered)
            copied = min(len(buffered), len(target), limit, AT_ONCE)
            target[:copied] = buffered[:copied]
            used = copied
            if self._head is not None and self._head.body_length != "close":
                self._left -= copied
        else:
            try:
                decoded, used = self._chunked.decode(buffered[: len(target)])
            except MalformedHttp:
                self.close()
                raise malformed_response() from None
            copied = len(decoded)
            target[:copied] = decoded
        buffered.release()
        self._start += used
        if self._start == self._stop:
            self._start = self._stop = 0
            if isinstance(self._buffer, memoryview):
                self._buffer = _EMPTY  # it was of a large body
        self._finish_if_complete()
        return copied

    def _finish_if_complete(self) -> None:
        head = self._head
        if head is None or head.body_length == "close":
            return
        if not (self._chunked.ended if self._chunked is not None else self._left == 0):
            return
        self.ended = True
        if not head.is_persistent or self._stop > self._start or self._transport is None:
            self.close()  # what follows a response belongs to none
            return
        self._buffer, self._chunked = _EMPTY, None
        self._start = self._stop = 0
        self._resume()  # so that the end of the connection is seen
        self._on_idle(self)

    # The transport's side

    def get_buffer(self, sizehint: int) -> memoryview:
        """The reader's buffer if it waits for counted bytes; else the connection's own, or the shared one if that is
        empty."""
        if self._target is not None:
            return self._target
        stop = self._stop
        return memoryview(self._buffer)[stop : stop + self._at_once] if stop < len(self._buffer) else self.shared.view

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
        """Keeps `nbytes` behind what is kept. False: nothing is, and they are in the shared buffer."""
        if not self._buffer:
            return False
        if self._stop == len(self._buffer):  # behind a whole head, or all of a body
            self._buffer = _EMPTY.join((self._buffer, self.shared.view[:nbytes]))
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
        """Keeps `nbytes` of a head and what follows it, and wakes the reader once the head is whole."""
        head, received = None, self.shared.received
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

    def _keep_head(self, nbytes: int) -> bool:
        """Keeps `nbytes` of a head and what follows it. Returns whether the reader has something to do."""
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
        """Parses the head at the front of the buffer, and keeps what follows it."""
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
        self._buffer, self._stop = _EMPTY, 0
        if stop > start:
            self._keep(received, start, stop)

    def _begin_body(self, head: ResponseHead, received: bytearray, start: int, stop: int) -> None:
        """The head has come, and keeps what has come behind it."""
        self._head = head
        self._left = head.body_length if isinstance(head.body_length, int) else 0
        self._chunked = ChunkedDecoder() if head.body_length == "chunked" else None
        large, count = self._large, stop - start
        room = large.make_room(head) if large is not None and count < self._left > WHOLE_LIMIT else None
        if room is not None:
            room[:count] = received[start:stop]
            self._buffer, self._stop = room, count
        elif count:
            self._keep(received, start, stop)
        else:
            self._buffer, self._stop = _EMPTY, 0

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

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended; `exc` None: in good order."""
        transport, self._transport = self._transport, None
        if self._has_raw_head:
            self._parse_head()
        if not self.ended:
            head = self._head
            if head is not None and head.body_length == "close" and exc is None:
                self.ended = self._stop == self._start
                if not self.ended:  # the reader has yet to read what is here
                    self._head = head._replace(body_length=self._stop - self._start)
                    self._left = self._stop - self._start
                self._wake(0)
            else:
                self._fail(lambda: connection_lost(exc, within=head is not None))
        if transport is not None:
            self._deadline.end()  # else the two would be a cycle
            self._on_closed(self)
