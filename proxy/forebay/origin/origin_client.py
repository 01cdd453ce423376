"""Bytes to and from the origin: signed requests, over wires of our own where they have no body to send, which is
where most bytes are (wire.py), and over an aiohttp session where they have.

It is not the place where reads are judged or asked again (object_reads.py). What it promises:

- the target goes out as it was signed, byte for byte; redirects are not followed; nothing is decoded; no cookies; no
  proxy or netrc from the environment; TLS is verified;
- a request body is read once. aiohttp repeats an idempotent request by itself when the connection breaks before an
  answer, also with a body, also on a new connection, and unseen; the middleware `_only_once` takes that from it. Here
  only a GET or HEAD is repeated, once, at once, when an established connection broke before an answer: a kept-alive
  connection that the origin was about to close looks like that;
- every request is in a gate from before its head until the end of its answer; reads and writes have a gate each;
- cancelling `send`, or closing the answer, drops the connection and leaves the gate, at whatever stage.
"""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Final

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict
from yarl import URL

from forebay.core.errors import OriginBroken, OriginError, OriginUnreachable, S3Error
from forebay.core.events import Observe, OriginAnswered, OriginFailed, OriginRetried, unobserved
from forebay.core.fair_semaphore import FairSemaphore
from forebay.origin.breaker import Breaker
from forebay.origin.credentials import Credentials
from forebay.origin.dialects import Dialect
from forebay.origin.endpoint import RequestUrl, parse_endpoint
from forebay.origin.http.connection_pool import ConnectionPool
from forebay.origin.http.loopback_resolver import LoopbackResolver
from forebay.origin.http.transport_errors import (
    TRANSPORT_ERRORS,
    ConnectionFault,
    error_before_response,
    is_lost_connection,
)
from forebay.origin.http.transport_response import PooledResponse, SessionResponse, TransportResponse
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_request import OriginRequest, caller_headers, signed_headers
from forebay.origin.origin_response import OriginResponse
from forebay.origin.oss_origin import OssAdapter
from forebay.origin.outgoing_body import PIECE, OutgoingBody, slices
from forebay.protocol.oss.oss_signing import sign_oss_request
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv4_signing import sign_request

_USER_AGENT: Final = "forebay"
# A user may give 2 KB of metadata in as many headers as fit, and a header may be long (replication, checksums).
_MAX_HEADERS: Final = 1024
_MAX_HEADER_BYTES: Final = 32 * 1024


class _ConnectionLost(Exception):
    """Carries a lost connection out of aiohttp's reach. `fault` is what was lost."""

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


class OriginClient:
    """To be made inside the running loop, and closed (`async with`, or `close`)."""

    def __init__(
        self,
        endpoint: URL | str,
        region: str,
        dialect: Dialect,
        credentials: Credentials,
        *,
        limits: OriginLimits | None = None,
        observe: Observe = unobserved,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        ca_file: str | None = None,
        user_agent: str = _USER_AGENT,
    ) -> None:
        self.endpoint = parse_endpoint(endpoint, dialect)
        self.region = region
        self.dialect = dialect
        self.credentials = credentials
        self.limits = limits = limits if limits is not None else OriginLimits()
        self.ca_file = ca_file
        self.observe = observe
        self.monotonic = monotonic
        self.breaker = Breaker(limits.breaker_failures, limits.breaker_cooldown)
        self.reads = FairSemaphore(limits.reads, "origin reads")
        self.writes = FairSemaphore(limits.writes, "origin writes")
        self._clock = clock
        self._fixed_headers = ((hdrs.USER_AGENT, user_agent), (hdrs.ACCEPT, "*/*"), (hdrs.ACCEPT_ENCODING, "identity"))
        self._user_agent = user_agent
        self._pool = ConnectionPool(limits.connect_timeout, limits.keepalive, ca_file)
        self._oss = OssAdapter(self._send, region, observe) if dialect.speaks_oss else None
        self._resolver = LoopbackResolver()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limits.reads + limits.writes + 1,  # the gates bound; the one more is for the readiness probe
                keepalive_timeout=limits.keepalive,
                ssl=self._pool.tls() if self.endpoint.scheme == "https" else True,
                resolver=self._resolver,
            ),
            timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect_timeout, sock_read=limits.answer_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            raise_for_status=False,
            middlewares=(_without_retries,),
            skip_auto_headers=(hdrs.CONTENT_TYPE,),
            read_bufsize=PIECE,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            max_headers=_MAX_HEADERS,
        )

    async def send(self, request: OriginRequest) -> OriginResponse:
        """One signed request; returns when the head of the answer is there, whatever its status.

        OriginUnreachable: no connection, no answer in time, the breaker is open, no credentials. OriginBroken: the
        answer is not HTTP, or a success with no end to it. Throttled: too many requests in flight. Whatever the
        caller's body raises comes out as it is. S3Error InvalidBucketName: a name that this origin reserves;
        NotImplemented: what it can't do.
        """
        return await (self._send(request) if self._oss is None else self._oss.send(request))

    async def _send(self, request: OriginRequest) -> OriginResponse:
        if request.bucket in self.dialect.reserved_names:
            raise S3Error("InvalidBucketName", BucketName=request.bucket or "")
        if not self.breaker.admit(self.monotonic()):
            raise OriginUnreachable("the breaker is open")
        gate = self.reads if request.is_read else self.writes
        outgoing = self._outgoing(request)
        try:
            await gate.acquire(1, self.limits.wait)
        except BaseException:
            self.breaker.withdrawn(self.monotonic())
            raise
        try:
            incoming = await self._receive_head(request, outgoing)
            return OriginResponse(
                incoming,
                operation=request.operation,
                outgoing=outgoing,
                release=gate.release,
                observe=self.observe,
            )
        except BaseException:
            gate.release()
            if outgoing is not None:
                await outgoing.settled()
            raise

    def _outgoing(self, request: OriginRequest) -> OutgoingBody | None:
        body, length = request.body, request.content_length
        if body is None or body == b"":
            return None
        if isinstance(body, bytes):
            length = len(body)
            body = slices(body)
        return OutgoingBody(body, length, self.limits.stall_timeout, self.limits.answer_timeout)

    async def _receive_head(self, request: OriginRequest, outgoing: OutgoingBody | None) -> TransportResponse:
        """The head of the answer. The breaker hears of it exactly once."""
        over_a_wire = repeatable = request.is_read and outgoing is None
        heard = False
        try:
            address = self.endpoint.url_of(request.bucket, request.key, request.query)
            while True:
                headers = await self._headers(request, address)
                began = self.monotonic()
                incoming: TransportResponse
                try:
                    if over_a_wire:
                        incoming = await self._send_pooled(request.method, address, headers, fresh=not repeatable)
                    else:
                        if outgoing is not None and outgoing.length is not None:
                            headers.append((hdrs.CONTENT_LENGTH, str(outgoing.length)))
                        response = await self._send_by_session(
                            request.method, address.yarl, CIMultiDict(headers), outgoing
                        )
                        incoming = SessionResponse(response, self.limits.stall_timeout)
                except (ConnectionFault, _ConnectionLost, *TRANSPORT_ERRORS) as fault:
                    if outgoing is not None and outgoing.failure is not None:
                        raise outgoing.failure from None
                    error, lost = _classify(fault)
                    self.observe(OriginFailed(request.operation, error.reason))
                    if repeatable and lost:
                        repeatable = False
                        self.observe(OriginRetried(request.operation))
                        continue
                    heard = True
                    if isinstance(error, OriginUnreachable):
                        self.breaker.failed(self.monotonic())
                    else:
                        self.breaker.succeeded()
                    raise error from None
                except ValueError:
                    # aiohttp refuses a control character in a header.
                    raise S3Error("InvalidRequest", "A header of the request can't be sent.") from None
                heard = True
                self.breaker.succeeded()
                self.observe(OriginAnswered(request.operation, incoming.status, self.monotonic() - began))
                return self._verify_framing(request, incoming)
        finally:
            if not heard:
                self.breaker.withdrawn(self.monotonic())

    async def _send_pooled(
        self, method: str, url: RequestUrl, headers: list[tuple[str, str]], *, fresh: bool
    ) -> PooledResponse:
        request = _request_head(method, url, headers)
        wire = await self._pool.acquire(url.server, fresh=fresh)
        try:
            head = await wire.send_request(request, method, self.limits.answer_timeout)
        except BaseException:
            wire.close()
            raise
        return PooledResponse(wire, head, self.limits.stall_timeout)

    async def _send_by_session(
        self, method: str, url: URL, headers: CIMultiDict[str], outgoing: OutgoingBody | None
    ) -> aiohttp.ClientResponse:
        if outgoing is None:
            return await self._session.request(method, url, headers=headers, allow_redirects=False)
        async with asyncio.timeout(self.limits.connect_timeout + self.limits.answer_timeout) as watch:
            outgoing.extend_timeout(watch)
            try:
                return await self._session.request(
                    method, url, headers=headers, data=aiohttp.AsyncIterablePayload(outgoing), allow_redirects=False
                )
            finally:
                outgoing.extend_timeout(None)

    async def _headers(self, request: OriginRequest, url: RequestUrl) -> list[tuple[str, str]]:
        """All but Host and what frames a body. Those that are added here are none of the caller's (`sendable`)."""
        given = caller_headers(request.headers)
        credential = request.credential or await self.credentials.current()
        added = self._signature(request, url, given, credential) if credential is not None else {}
        if self._oss is not None:
            headers = CIMultiDict(given)
            headers.update(added)
            headers[hdrs.DATE] = formatdate(self._clock(), usegmt=True)  # as OSS documents it
            return [*self._fixed_headers, *headers.items()]
        return [*self._fixed_headers, *given, *added.items()]

    def _signature(
        self, request: OriginRequest, url: RequestUrl, caller: list[tuple[str, str]], credential: SecretKey
    ) -> dict[str, str]:
        now = self._clock()
        if self._oss is not None:
            bucket, key, query = request.bucket, request.key, request.query
            headers = {name.lower(): value for name, value in caller}
            return sign_oss_request(request.method, url.host, bucket, key, query, headers, credential, self.region, now)
        return sign_request(
            request.method,
            url.host,
            url.raw_path,
            request.query,
            signed_headers(caller),
            request.payload_hash,
            credential,
            self.region,
            now,
        )

    def _verify_framing(self, request: OriginRequest, response: TransportResponse) -> TransportResponse:
        """A success whose end can't be told from a broken connection is no success."""
        if (
            not response.ended
            and response.status < 300
            and hdrs.CONTENT_LENGTH not in response.headers
            and hdrs.TRANSFER_ENCODING not in response.headers
        ):
            response.close()
            self.observe(OriginFailed(request.operation, "an answer without an end"))
            raise OriginBroken("an answer without an end")
        return response

    async def probe(self) -> bool:
        """Whether the origin is there: any HTTP answer counts. Unsigned, past the gates and the breaker, which it
        tells.
        """
        url = self.endpoint.url_of(None, None, ()).yarl
        timeout = aiohttp.ClientTimeout(total=self.limits.connect_timeout)
        try:
            async with self._session.head(
                url, headers={hdrs.USER_AGENT: self._user_agent}, allow_redirects=False, timeout=timeout
            ):
                pass
        except (_ConnectionLost, *TRANSPORT_ERRORS):
            return False
        self.breaker.succeeded()
        return True

    async def close(self) -> None:
        """Drops all connections. Answers under way break."""
        await self._pool.close()
        await self._session.close()
        await self._resolver.close()

    async def __aenter__(self) -> "OriginClient":
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()


def _classify(fault: BaseException) -> tuple[OriginError, bool]:
    """What it means that there is no answer, and whether it is because an established connection broke."""
    if isinstance(fault, ConnectionFault):
        return fault.error, fault.lost
    origin = fault.fault if isinstance(fault, _ConnectionLost) else fault
    return error_before_response(origin), is_lost_connection(origin)


def _request_head(method: str, url: RequestUrl, headers: list[tuple[str, str]]) -> bytes:
    """The head of a request without a body. ValueError for what would not be one header."""
    lines = [f"{method} {url.target} HTTP/1.1", f"Host: {url.host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    text = "\r\n".join((*lines, "\r\n"))
    if not text.count("\r") == text.count("\n") == len(lines) + 1 or "\0" in text:
        raise ValueError("a control character in a header")
    return text.encode()
