"""Requests that aiohttp sends: those with a body.

Requests without a body, which carry most bytes, use forebay.origin.http.connection_pool instead. Rules of the session:
nothing is decoded, no redirect is followed, no cookies, no proxy or netrc from the environment, TLS is verified.

aiohttp repeats an idempotent request by itself when the connection breaks before a response, also with a body, also on
a new connection, and unseen. The middleware `_without_retries` prevents that: a request body is read once.

The body of a request with `Expect: 100-continue` is read once the origin asks for it, or has said nothing for
CONTINUE_SECONDS: some know no expectations (RFC 9110 section 10.1.1). One that refuses them (417) is sent the request
again, without.
"""

import asyncio
from typing import Final

import aiohttp
from aiohttp import hdrs
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from forebay.origin.http.connection_pool import ConnectionPool
from forebay.origin.http.loopback_resolver import LoopbackResolver
from forebay.origin.http.outgoing_body import PIECE, OutgoingBody
from forebay.origin.http.response_head import MAX_STATUS
from forebay.origin.http.transport_errors import (
    TRANSPORT_ERRORS,
    ConnectionFault,
    error_before_response,
    is_connected,
    is_lost_connection,
    malformed_response,
)
from forebay.origin.http.transport_response import SessionResponse
from forebay.origin.origin_limits import OriginLimits

# A user may give 2 KB of metadata in as many headers as fit, and a header may be long (replication, checksums).
_MAX_HEADERS: Final = 1024
_MAX_HEADER_BYTES: Final = 32 * 1024


CONTINUE_SECONDS: Final = 1.0
"""Seconds that a body waits for 100 Continue, as in curl and botocore."""
_EXPECTATION_FAILED: Final = 417


class _ImpatientRequest(aiohttp.ClientRequest):
    """A request that does not wait for 100 Continue for ever, as aiohttp's does."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        response = await super().send(conn)
        if (awaited := self._continue) is not None:
            self.loop.call_later(CONTINUE_SECONDS, _go_on, awaited)
        return response


def _go_on(awaited: asyncio.Future[bool]) -> None:
    if not awaited.done():
        awaited.set_result(True)


class _ConnectionLost(Exception):
    """Carries a lost connection past aiohttp's retries. `fault` is aiohttp's own error."""

    def __init__(self, fault: BaseException) -> None:
        self.fault = fault
        super().__init__(type(fault).__name__)


async def _without_retries(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Client middleware: one request is one attempt. aiohttp repeats on exactly these two errors."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as fault:
        raise _ConnectionLost(fault) from None


class SessionTransport:
    """An aiohttp session to the origin. Made inside the running loop, and closed."""

    def __init__(self, limits: OriginLimits, pool: ConnectionPool, *, secure: bool) -> None:
        """`pool`: whose TLS context is shared. `secure`: whether the endpoint speaks TLS."""
        self._limits = limits
        self._resolver = LoopbackResolver()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limits.reads + limits.writes,  # so that only the client's semaphores bound
                keepalive_timeout=limits.keepalive,
                ssl=pool.tls() if secure else True,
                resolver=self._resolver,
            ),
            timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect_timeout, sock_read=limits.answer_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            raise_for_status=False,
            middlewares=(_without_retries,),
            request_class=_ImpatientRequest,
            skip_auto_headers=(hdrs.CONTENT_TYPE,),
            read_bufsize=PIECE,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            max_headers=_MAX_HEADERS,
        )

    async def send(self, method: str, url: URL, headers: list[tuple[str, str]], body: OutgoingBody) -> SessionResponse:
        """Sends a request; returns with the head of its response. Raises ConnectionFault, and ValueError for a header
        that can't be sent."""
        if body.length is not None:
            headers.append((hdrs.CONTENT_LENGTH, str(body.length)))
        try:
            response = await self._request(method, url, CIMultiDict(headers), body)
            if response.status == _EXPECTATION_FAILED and not body.is_begun:
                response.close()
                plain = CIMultiDict(pair for pair in headers if pair[0].lower() != "expect")
                response = await self._request(method, url, plain, body)
        except (_ConnectionLost, *TRANSPORT_ERRORS) as fault:
            cause = fault.fault if isinstance(fault, _ConnectionLost) else fault
            raise ConnectionFault(
                error_before_response(cause), connected=is_connected(cause), lost=is_lost_connection(cause)
            ) from None
        if not 200 <= response.status <= MAX_STATUS:
            response.close()
            raise malformed_response()
        return SessionResponse(response, self._limits.stall_timeout)

    async def _request(
        self, method: str, url: URL, headers: CIMultiDict[str], body: OutgoingBody
    ) -> aiohttp.ClientResponse:
        async with asyncio.timeout(self._limits.connect_timeout + self._limits.answer_timeout) as timeout:
            body.extend_timeout(timeout)
            try:
                payload = aiohttp.AsyncIterablePayload(body)  # type: ignore[arg-type] # a socket accepts any buffer
                return await self._session.request(method, url, headers=headers, data=payload, allow_redirects=False)
            finally:
                body.extend_timeout(None)

    async def close(self) -> None:
        """Drops all connections. Responses in progress break."""
        await self._session.close()
        await self._resolver.close()
