"""Requests over HTTP/1.1: the transport that every client has.

On http.client of the standard library: a request costs half the CPU that it costs with urllib3, and bodies are received
where they belong. It says how long a body is and whether it came whole; everything else (retries, errors of S3) stands
in request_sender.
"""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final

from forebay_client.client_errors import ClientConfigurationError
from forebay_client.client_settings import ClientSettings
from forebay_client.transport.body_checks import check_length, is_unmarked_part
from forebay_client.transport.fork_safety import renew_after_fork
from forebay_client.transport.http_connection_pool import (
    ConnectionLease,
    ConnectionMaker,
    HttpConnectionPool,
    connection_maker,
)
from forebay_client.transport.object_request import (
    BodyInterrupted,
    ObjectRequest,
    ObjectResponse,
    TransportFailed,
)
from forebay_client.transport.retry_policy import patience, silence
from forebay_client.transport.server_outage import ServerOutage
from forebay_client.transport.signed_request import ObjectRequestSigner, SignedRequest
from forebay_client.transport.upload_content import pieces_of

_BROKEN: Final = (OSError, HTTPException, ValueError)
"""Exceptions of http.client where a response breaks off; ValueError for a chunk of negative size."""
MAX_DOCUMENT: Final = 32 << 20
"""Bytes of the body of a response that is no success, or that has no length."""
_CHUNK_FRONT: Final = 8 << 10
"""Bytes that http.client reads ahead."""
_USER_AGENT: Final = "forebay-client"


class _ConnectionEnded(TransportFailed):
    """The server closed the connection before it answered."""


class HttpTransport:
    """HTTP to one server."""

    name: str = "http"

    def __init__(
        self, settings: ClientSettings, signer: ObjectRequestSigner, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._signer, self._clock = settings, signer, clock
        self._is_proxied = settings.proxy is not None and settings.server.scheme == "http"
        """Whether a proxy reads the requests; one that tunnels does not."""
        self._proxy_headers = (
            tuple(settings.proxy.headers.items()) if settings.proxy is not None and self._is_proxied else ()
        )
        self._maker: ConnectionMaker | None = None
        self._pools: dict[str, HttpConnectionPool] = {}
        renew_after_fork(self._renew)

    def carries(self, request: ObjectRequest) -> bool:
        """Everything."""
        return True

    def send(self, request: ObjectRequest) -> ObjectResponse:
        """See Transport."""
        signed = self._signer.sign(request)
        pool = self._pools.get(signed.host) or self._new_pool(signed.host)
        lease = pool.lease()
        is_released = False
        try:
            try:
                response = self._exchange(pool, lease, signed, request)
            except _ConnectionEnded:
                if not lease.is_reused:
                    raise
                # The server has closed an idle connection just now: no verdict on the server.
                pool.release(lease)
                lease = pool.lease()
                response = self._exchange(pool, lease, signed, request)
            head = ObjectResponse(response.status, _headers(response))
            check_length(head)
            if is_unmarked_part(head):
                response.status = 206
                head = ObjectResponse(response.status, head.headers)
            if request.is_streamed and response.status < 300:
                stream = HttpBodyStream(pool, lease, response, head)
                is_released = True  # by the stream
                return ObjectResponse(head.status, head.headers, stream=stream)
            body = _read_body(pool, request, response, head)
            lease.keep()  # one that the response closes has no socket any more
            return ObjectResponse(head.status, head.headers, body)
        finally:
            if not is_released:
                pool.release(lease)

    def close(self) -> None:
        """See Transport."""
        for pool in list(self._pools.values()):
            pool.close()

    def _exchange(
        self, pool: HttpConnectionPool, lease: ConnectionLease, signed: SignedRequest, request: ObjectRequest
    ) -> HTTPResponse:
        """Sends the request and reads the head of the response. Raises TransportFailed, Unreachable where the
        server says nothing."""
        connection = lease.connection
        target, own = signed.target, self._proxy_headers
        if self._is_proxied:
            target = f"http://{signed.headers['host']}{target}"
        try:
            connection.putrequest(signed.method, target, skip_host=True, skip_accept_encoding=True)
            connection.putheader("user-agent", _USER_AGENT)
            connection.putheader("accept-encoding", "identity")
            for name, value in (*signed.headers.items(), *own):
                connection.putheader(name, value)
            connection.endheaders()
            try:
                for piece in pieces_of(request.content):
                    connection.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # a refusal may have come before the end
            response = connection.getresponse()
        except ConnectionError as error:
            raise _ConnectionEnded(f"no response: {error}") from error
        except TimeoutError as error:
            raise pool.unanswered() from error
        except (OSError, HTTPException) as error:
            raise TransportFailed(f"no response: {str(error) or type(error).__name__}") from error
        pool.answered()
        return response

    def _new_pool(self, host: str) -> HttpConnectionPool:
        settings = self._settings

        def make() -> HTTPConnection:
            if self._maker is None:
                try:
                    self._maker = connection_maker(settings.server, settings.ca_bundle, settings.proxy)
                except OSError as error:
                    raise ClientConfigurationError(f"AWS_CA_BUNDLE: {settings.ca_bundle} can't be used") from error
            return self._maker(host)

        server, proxy = settings.server, settings.proxy
        name = str(replace(server, host=host))
        if proxy is not None:
            name += f" through the proxy {proxy.host}:{proxy.port}"
        outage = ServerOutage(
            name, patience(settings.retries), silence(settings.timeout, settings.retries), self._clock
        )
        # Of two threads that come at once, both get the same.
        return self._pools.setdefault(host, HttpConnectionPool(make, settings.connections, settings.timeout, outage))

    def _renew(self) -> None:
        self.close()  # the child's copies of the parent's connections
        self._maker = None
        self._pools = {}


class HttpBodyStream:
    """The body of a success, read as it arrives."""

    def __init__(
        self, pool: HttpConnectionPool, lease: ConnectionLease, response: HTTPResponse, head: ObjectResponse
    ) -> None:
        self._pool, self._lease, self._response, self._head = pool, lease, response, head
        self._is_open = True
        self._process = os.getpid()

    def readinto(self, buffer: memoryview, /) -> int:
        """See BodyStream."""
        if not self._is_open or not len(buffer):
            return 0
        if self._is_forked:  # each byte that is read here would be missing in the parent
            self.close()
            raise self._interrupted("it is of the process that this one was forked from")
        response = self._response
        left = response.length
        try:
            if not response.chunked:
                count = response.readinto(buffer)
            elif response.chunk_left:  # no more than a chunk: `readinto` would wait until the buffer is full
                count = response.readinto(buffer[: response.chunk_left])
            else:  # what came with the length of the chunk; the rest of it is received where it belongs
                piece = response.read1(min(len(buffer), _CHUNK_FRONT))
                count = len(piece)
                buffer[:count] = piece
        except _BROKEN as error:
            if isinstance(error, TimeoutError):
                self._pool.unanswered()
            self.close()
            raise self._interrupted(str(error) or type(error).__name__) from error
        if count:
            return count
        if left:
            self.close()
            raise self._interrupted(f"{left} bytes are missing")
        self._lease.keep()
        self.close()
        return 0

    def close(self) -> None:
        """See BodyStream."""
        if not self._is_open:
            return
        self._is_open = False
        self._pool.release(self._lease)

    @property
    def _is_forked(self) -> bool:
        return self._process != os.getpid()

    def _interrupted(self, reason: str) -> BodyInterrupted:
        return BodyInterrupted(reason, self._head, memoryview(b""), 0)


def _headers(response: HTTPResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.getheaders():
        lower = name.lower()
        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    return headers


def _read_body(
    pool: HttpConnectionPool, request: ObjectRequest, response: HTTPResponse, head: ObjectResponse
) -> memoryview:
    """The whole body. Raises BodyInterrupted, and TransportFailed for one that is no success."""
    length = response.length
    is_success = response.status < 300
    if length is None or not is_success:
        try:
            body = response.read(MAX_DOCUMENT + 1)
            if len(body) > MAX_DOCUMENT:
                raise TransportFailed("the body has no length, or is no document")
            if length is None and not response.chunked:
                raise TransportFailed("the body has no length: nothing says that it is whole")
        except _BROKEN as error:
            raise TransportFailed(f"the response broke off: {str(error) or type(error).__name__}") from error
        if length is not None and len(body) < length:
            raise TransportFailed("the response broke off")
        return memoryview(body)
    own = request.buffer
    # A range that was ignored must not overflow, or be mistaken for the range.
    fits = own is not None and len(own) >= length and (request.span is None or response.status == 206)
    try:
        buffer = own[:length] if own is not None and fits else memoryview(bytearray(length))
    except (MemoryError, OverflowError):  # as it says, and as it may be no truth
        raise TransportFailed(f"there is no memory for a body of {length} bytes") from None
    received = 0
    try:
        while received < length:
            count = response.readinto(buffer[received:])
            if not count:
                raise BodyInterrupted(f"{length - received} bytes are missing", head, buffer, received)
            received += count
    except _BROKEN as error:
        if isinstance(error, TimeoutError):
            pool.unanswered()
        reason = str(error) or type(error).__name__
        raise BodyInterrupted(reason, head, buffer, received) from error
    response.read()  # the end, also of an empty body
    return buffer
