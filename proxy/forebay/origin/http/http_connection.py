"""One HTTP/1.1 connection to the origin: requests without a body, one at a time, and nothing decoded.

    idle ──send_request──> requested ──head──> responding ──last byte──> idle      (persistent: it may carry another)
                              └───────────────────┴── close, failure, not persistent ──> closed

What arrives is received by forebay.origin.http.response_receiver; here is what the user of a connection calls.

Rules: the user of a connection owns it until it is idle or closed, and it becomes idle only in the owner's own turn of
the loop, so that nobody else has it before the owner knows; at most one `read_into` at a time; bytes that arrive while
it is idle belong to no response, and close it. Failures are raised as ConnectionFault. RFC 9112, 9.3.
"""

from collections.abc import Callable

from forebay.core.errors import MalformedHttp
from forebay.origin.http.large_body import AT_ONCE
from forebay.origin.http.receive_buffer import ReceiveBuffer
from forebay.origin.http.response_head import ResponseHead, parse_head
from forebay.origin.http.response_receiver import EMPTY, ResponseReceiver
from forebay.origin.http.transport_errors import body_stalled, connection_lost, malformed_response, response_timed_out


class HttpConnection(ResponseReceiver):
    """See the module. Connected by forebay.origin.http.connection_pool."""

    def __init__(
        self,
        on_idle: Callable[["HttpConnection"], None],
        on_closed: Callable[["HttpConnection"], None],
        shared: ReceiveBuffer,
    ) -> None:
        """`on_idle(self)`: a response has ended, and another request may follow. `on_closed(self)`: none may.
        `shared`: see ResponseReceiver."""
        super().__init__(shared)
        self._on_idle, self._on_closed = on_idle, on_closed
        self.idle_since = 0.0

    def __repr__(self) -> str:
        state = "closed"
        if self._transport is not None:
            state = "idle" if self.ended else "responding" if self._head else "requested"
        return f"<HttpConnection {state}, {self._left} bytes to come>"

    async def send_request(self, request: bytes, method: str, response_timeout: float) -> ResponseHead:
        """Sends a request and returns the head of its response, with any status. See `response_head`."""
        self.write_request(request, method)
        return await self.response_head(response_timeout)

    def write_request(self, request: bytes, method: str) -> None:
        """Sends a request, without waiting for its response. ConnectionFault."""
        if self._transport is None or not self.ended:
            raise connection_lost(None)
        self._method, self._head, self._fault, self._large, self.ended = method, None, None, None, False
        self._transport.write(request)

    @property
    def whole_head(self) -> ResponseHead | None:
        """The head of the response, if all of its body has come, and nothing behind it."""
        return self._head if self._is_here and not self.ended else None

    async def response_head(self, response_timeout: float) -> ResponseHead:
        """Returns the head of the response to the written request, with any status. Raises ConnectionFault, also after
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
        """Receives at least one byte of the body into the front of `target`; returns how many, 0 at the end.

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
        """Aborts the connection. May be called at any time, and again."""
        transport, self._transport = self._transport, None
        if transport is not None:
            self._buffer, self._start, self._stop = EMPTY, 0, 0
            self._deadline.end()
            transport.abort()
            self._on_closed(self)

    def _read_buffered(self, target: memoryview) -> int:
        """Reads from the connection's buffer: bytes that arrived with the head, chunked bodies, bodies without a
        length."""
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
                self._buffer = EMPTY  # it was of a large body
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
        self._buffer, self._chunked = EMPTY, None
        self._start = self._stop = 0
        self._resume()  # so that the end of the connection is seen
        self._on_idle(self)

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
