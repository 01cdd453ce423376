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
from forebay.origin.endpoint import Address, endpoint_of
from forebay.origin.http.connection_pool import Wires
from forebay.origin.http.incoming_body import Incoming, SessionAnswer, WireAnswer
from forebay.origin.http.loopback_resolver import LoopbackNames
from forebay.origin.http.transport_errors import FOREIGN, WireFault, before_the_answer, is_lost_connection
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_request import OriginRequest, sendable, to_sign
from forebay.origin.origin_response import OriginAnswer
from forebay.origin.oss_origin import OssSpeech
from forebay.origin.outgoing_body import PIECE, OutgoingBody, slices
from forebay.protocol.oss.origin.oss_origin_signing import sign_oss_request
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv4_signing import sign_request

_USER_AGENT: Final = "forebay"
# A user may give 2 KB of metadata in as many headers as fit, and a header may be long (replication, checksums).
_MAX_HEADERS: Final = 1024
_MAX_HEADER_BYTES: Final = 32 * 1024


class _LostError(Exception):
    """Carries a lost connection out of aiohttp's reach. `fault` is what was lost."""

    def __init__(self, fault: BaseException) -> None:
        self.fault = fault
        super().__init__(type(fault).__name__)


async def _only_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Client middleware: one request is one attempt. aiohttp repeats on exactly these two errors."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as fault:
        raise _LostError(fault) from None


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
        self.endpoint = endpoint_of(endpoint, dialect)
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
        self._always = ((hdrs.USER_AGENT, user_agent), (hdrs.ACCEPT, "*/*"), (hdrs.ACCEPT_ENCODING, "identity"))
        self._user_agent = user_agent
        self._wires = Wires(limits.connect_timeout, limits.keepalive, ca_file)
        self._oss = OssSpeech(self._send, region, observe) if dialect.speaks_oss else None
        self._resolver = LoopbackNames()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limits.reads + limits.writes + 1,  # the gates bound; the one more is for the readiness probe
                keepalive_timeout=limits.keepalive,
                ssl=self._wires.tls() if self.endpoint.scheme == "https" else True,
                resolver=self._resolver,
            ),
            timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect_timeout, sock_read=limits.answer_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            raise_for_status=False,
            middlewares=(_only_once,),
            skip_auto_headers=(hdrs.CONTENT_TYPE,),
            read_bufsize=PIECE,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            max_headers=_MAX_HEADERS,
        )

    async def send(self, request: OriginRequest) -> OriginAnswer:
        """One signed request; returns when the head of the answer is there, whatever its status.

        OriginUnreachable: no connection, no answer in time, the breaker is open, no credentials. OriginBroken: the
        answer is not HTTP, or a success with no end to it. Throttled: too many requests in flight. Whatever the
        caller's body raises comes out as it is. S3Error InvalidBucketName: a name that this origin reserves;
        NotImplemented: what it can't do.
        """
        return await (self._send(request) if self._oss is None else self._oss.send(request))

    async def _send(self, request: OriginRequest) -> OriginAnswer:
        if request.bucket in self.dialect.reserved:
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
            incoming = await self._asked(request, outgoing)
            return OriginAnswer(
                incoming,
                operation=request.operation,
                outgoing=outgoing,
                leave=gate.release,
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

    async def _asked(self, request: OriginRequest, outgoing: OutgoingBody | None) -> Incoming:
        """The head of the answer. The breaker hears of it exactly once."""
        over_a_wire = repeatable = request.is_read and outgoing is None
        heard = False
        try:
            address = self.endpoint.address(request.bucket, request.key, request.query)
            while True:
                headers = await self._headers(request, address)
                began = self.monotonic()
                incoming: Incoming
                try:
                    if over_a_wire:
                        incoming = await self._over_a_wire(request.method, address, headers, fresh=not repeatable)
                    else:
                        if outgoing is not None and outgoing.length is not None:
                            headers.append((hdrs.CONTENT_LENGTH, str(outgoing.length)))
                        response = await self._attempt(request.method, address.url, CIMultiDict(headers), outgoing)
                        incoming = SessionAnswer(response, self.limits.stall_timeout)
                except (WireFault, _LostError, *FOREIGN) as fault:
                    if outgoing is not None and outgoing.failure is not None:
                        raise outgoing.failure from None
                    error, lost = _judged(fault)
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
                return self._checked(request, incoming)
        finally:
            if not heard:
                self.breaker.withdrawn(self.monotonic())

    async def _over_a_wire(
        self, method: str, address: Address, headers: list[tuple[str, str]], *, fresh: bool
    ) -> WireAnswer:
        request = _request(method, address, headers)
        wire = await self._wires.take(address.place, fresh=fresh)
        try:
            head = await wire.ask(request, method, self.limits.answer_timeout)
        except BaseException:
            wire.close()
            raise
        return WireAnswer(wire, head, self.limits.stall_timeout)

    async def _attempt(
        self, method: str, url: URL, headers: CIMultiDict[str], outgoing: OutgoingBody | None
    ) -> aiohttp.ClientResponse:
        if outgoing is None:
            return await self._session.request(method, url, headers=headers, allow_redirects=False)
        async with asyncio.timeout(self.limits.connect_timeout + self.limits.answer_timeout) as watch:
            outgoing.watched_by(watch)
            try:
                return await self._session.request(
                    method, url, headers=headers, data=aiohttp.AsyncIterablePayload(outgoing), allow_redirects=False
                )
            finally:
                outgoing.watched_by(None)

    async def _headers(self, request: OriginRequest, address: Address) -> list[tuple[str, str]]:
        """All but Host and what frames a body. Those that are added here are none of the caller's (`sendable`)."""
        given = sendable(request.headers)
        credential = request.credential or await self.credentials.current()
        added = self._signed(request, address, given, credential) if credential is not None else {}
        if self._oss is not None:
            headers = CIMultiDict(given)
            headers.update(added)
            headers[hdrs.DATE] = formatdate(self._clock(), usegmt=True)  # as OSS documents it
            return [*self._always, *headers.items()]
        return [*self._always, *given, *added.items()]

    def _signed(
        self, request: OriginRequest, address: Address, given: list[tuple[str, str]], credential: SecretKey
    ) -> dict[str, str]:
        now = self._clock()
        if self._oss is not None:
            bucket, key, query = request.bucket, request.key, request.query
            headers = {name.lower(): value for name, value in given}
            return sign_oss_request(
                request.method, address.host, bucket, key, query, headers, credential, self.region, now
            )
        return sign_request(
            request.method,
            address.host,
            address.raw_path,
            request.query,
            to_sign(given),
            request.payload_hash,
            credential,
            self.region,
            now,
        )

    def _checked(self, request: OriginRequest, incoming: Incoming) -> Incoming:
        """A success whose end can't be told from a broken connection is no success."""
        if (
            not incoming.ended
            and incoming.status < 300
            and hdrs.CONTENT_LENGTH not in incoming.headers
            and hdrs.TRANSFER_ENCODING not in incoming.headers
        ):
            incoming.close()
            self.observe(OriginFailed(request.operation, "an answer without an end"))
            raise OriginBroken("an answer without an end")
        return incoming

    async def probe(self) -> bool:
        """Whether the origin is there: any HTTP answer counts. Unsigned, past the gates and the breaker, which it
        tells.
        """
        url = self.endpoint.address(None, None, ()).url
        timeout = aiohttp.ClientTimeout(total=self.limits.connect_timeout)
        try:
            async with self._session.head(
                url, headers={hdrs.USER_AGENT: self._user_agent}, allow_redirects=False, timeout=timeout
            ):
                pass
        except (_LostError, *FOREIGN):
            return False
        self.breaker.succeeded()
        return True

    async def close(self) -> None:
        """Drops all connections. Answers under way break."""
        await self._wires.close()
        await self._session.close()
        await self._resolver.close()

    async def __aenter__(self) -> "OriginClient":
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()


def _judged(fault: BaseException) -> tuple[OriginError, bool]:
    """What it means that there is no answer, and whether it is because an established connection broke."""
    if isinstance(fault, WireFault):
        return fault.error, fault.lost
    origin = fault.fault if isinstance(fault, _LostError) else fault
    return before_the_answer(origin), is_lost_connection(origin)


def _request(method: str, address: Address, headers: list[tuple[str, str]]) -> bytes:
    """The head of a request without a body. ValueError for what would not be one header."""
    lines = [f"{method} {address.target} HTTP/1.1", f"Host: {address.host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    text = "\r\n".join((*lines, "\r\n"))
    if not text.count("\r") == text.count("\n") == len(lines) + 1 or "\0" in text:
        raise ValueError("a control character in a header")
    return text.encode()
