"""Signed requests to the origin and its responses: the one way to it.

    admit (breaker) > wait for a turn > sign > send > head of the response

A request without a body goes over the connection pool, one with a body over the aiohttp session
(forebay.origin.http). Not here: what a response means for a read, and the retries of reads
(forebay.origin.reads.object_reads). Promises:

- the target is sent as it was signed, byte for byte; redirects are not followed; nothing is decoded; no cookies; no
  proxy or netrc from the environment; TLS is verified;
- a request body is read once. Only a GET or HEAD is repeated, once, at once, when an established connection broke
  before a response: a kept-alive connection that the origin was about to close looks like that;
- a hedge is sent over a new connection, once, and waits for no turn (forebay.origin.reads.hedging);
- a request holds its turn (forebay.origin.turns.request_turns) from before its head until the end of its response;
  reads and writes are counted apart;
- cancelling `send`, or closing the response, drops the connection and releases the turn, at whatever stage.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from forebay.core.errors import OriginBroken, OriginUnreachable, S3Error
from forebay.core.events import (
    Observe,
    OriginAnswered,
    OriginFailed,
    OriginRefusedCredential,
    OriginRetried,
    unobserved,
)
from forebay.core.requester import BACKGROUND, requester
from forebay.core.timers import Timers
from forebay.origin.adopted_read import AdoptedRead
from forebay.origin.breaker import Breaker
from forebay.origin.bucket_regions import REGION_STATUSES, BucketRegions
from forebay.origin.credential_check import CredentialCheck
from forebay.origin.credential_probe import PROBE_AGENT, REFUSAL_LIMIT, CredentialProbe
from forebay.origin.credential_refusal import SUSPECT_STATUSES, refusal_in
from forebay.origin.credentials import Credentials
from forebay.origin.endpoint import parse_endpoint
from forebay.origin.http.connection_pool import ConnectionPool
from forebay.origin.http.outgoing_body import OutgoingBody, outgoing_body
from forebay.origin.http.session_transport import SessionTransport
from forebay.origin.http.transport_errors import ConnectionFault
from forebay.origin.http.transport_response import TransportResponse
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_request import OriginRequest, Unsigned
from forebay.origin.origin_response import OriginResponse
from forebay.origin.origin_server import OriginServer
from forebay.origin.oss_adapter import OssAdapter
from forebay.origin.reachability import ReachabilityProbe
from forebay.origin.request_signer import RequestSigner
from forebay.origin.response_framing import has_end, partial_body_length
from forebay.origin.turns.body_turns import BodyTurns
from forebay.origin.turns.request_turns import RequestTurns
from forebay.origin.turns.upload_turns import UploadTurns

_log = logging.getLogger(__name__)

_USER_AGENT: Final = "forebay"
_WITHOUT_END: Final = "an answer without an end"


class OriginClient:
    """Made inside the running loop, and closed (`async with`, or `close`)."""

    def __init__(
        self,
        server: OriginServer,
        credentials: Credentials,
        *,
        limits: OriginLimits | None = None,
        observe: Observe = unobserved,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        timers: Timers | None = None,
        body_turns: BodyTurns | None = None,
    ) -> None:
        """`timers`: of the pace of clients, None for the running loop."""
        self.name, self.region, self.dialect = name, region, dialect = server.name, server.region, server.dialect
        self.endpoint = parse_endpoint(server.endpoint, dialect)
        self.ca_file = server.ca_file
        self.limits = limits = limits if limits is not None else OriginLimits()
        self.observe = observe
        self.monotonic = monotonic
        self.breaker = Breaker(limits.breaker_failures)
        timers = timers or asyncio.get_running_loop()
        self.reads = RequestTurns(limits.reads, "origin reads", timers, min_rate=limits.min_client_rate)
        self.writes = RequestTurns(limits.writes, "origin writes", timers, min_rate=limits.min_client_rate)
        self.uploads = UploadTurns(self.reads, self.writes)
        self.signer = RequestSigner(credentials, region, clock, _USER_AGENT, speaks_oss=dialect.speaks_oss)
        self._body_turns = body_turns or BodyTurns(timers)
        self.pool = ConnectionPool(limits, server.ca_file, self._body_turns)
        self._session = SessionTransport(limits, self.pool, secure=self.endpoint.scheme == "https")
        self._reachability = ReachabilityProbe(
            self.breaker,
            self._send_probe,
            f"{self.endpoint.scheme}://{self.endpoint.authority}",
            limits.breaker_cooldown,
            monotonic=monotonic,
        )
        self.credential_probe = CredentialProbe(
            self.endpoint,
            self.pool,
            RequestSigner(credentials, region, clock, PROBE_AGENT, speaks_oss=dialect.speaks_oss),
            clock,
        )
        self.credential_check = CredentialCheck(
            credentials, self.credential_probe.judge, region, clock=clock, monotonic=monotonic, origin=name
        )
        self._regions = BucketRegions(region) if dialect.has_regions else None
        self._oss = OssAdapter(self._send, region, observe, name) if dialect.speaks_oss else None

    def send(self, request: OriginRequest) -> Coroutine[Any, Any, OriginResponse]:
        """Sends one signed request; returns with the head of its response, whatever the status.

        OriginUnreachable: no connection, no response in time, the breaker is open. OriginBroken: the response is not
        HTTP, a success without an end, or a 206 of something else. OriginCredentialFault: no credential, or the origin
        refuses it. Throttled: too many requests in flight. S3Error: InvalidBucketName for a name that this origin
        reserves, NotImplemented for what it can't do. The caller's body's own errors come out as they are.
        """
        return self._send(request) if self._oss is None else self._oss.send(request)

    async def _send(self, request: OriginRequest, *, is_relocated: bool = False) -> OriginResponse:
        if request.bucket in self.dialect.reserved_names:
            raise S3Error("InvalidBucketName", BucketName=request.bucket or "")
        if not self.breaker.admit():
            outage = self.breaker.outage
            raise OriginUnreachable(f"{outage.cause} (the breaker is open)" if outage else "the breaker is open")
        response, body = await self._send_in_turn(request)
        try:
            is_elsewhere = await self._judge(request, response, is_relocated=is_relocated)
        except BaseException:
            await response.__aexit__(None, None, None)
            raise
        if not is_elsewhere:
            return response
        await response.__aexit__(None, None, None)
        if body is not None and body.is_begun and not isinstance(request.body, bytes):  # it is read once
            raise S3Error("ServiceUnavailable", "The bucket's region was not known. Please try again.")
        return await self._send(request, is_relocated=True)

    async def _send_in_turn(self, request: OriginRequest) -> tuple[OriginResponse, OutgoingBody | None]:
        """Waits for a turn, and sends the request. Returns the response, which has the turn now, and the body sent."""
        turns = self.reads if request.is_read else self.writes
        principal, paced = requester.get(), request.paced_by is not None
        adopted = request.sent.adopt() if request.sent is not None else None
        turn = adopted[1] if adopted is not None else turns.try_acquire(principal, paced=paced)
        if turn is None:
            turn = await turns.acquire(principal, 0.0 if request.is_hedge else self.limits.wait, paced=paced)
        body = outgoing_body(request, turn, self.limits, self._body_turns)
        try:
            exchanged = await self._exchange(request, body, adopted)
            if request.paced_by == "body":
                turn.complete_body()  # also where the origin has answered before its end
            try:
                length = partial_body_length(request, exchanged.headers) if exchanged.status == 206 else None
            except OriginBroken as broken:
                self._drop(request, exchanged, broken.reason)
                raise
            response = OriginResponse(
                exchanged,
                operation=request.operation,
                outgoing=body,
                turn=turn,
                observe=self.observe,
                origin=self.name,
                length=length,
            )
        except BaseException:
            turn.release()
            if body is not None:
                await body.settled()
            raise
        return response, body

    async def _judge(self, request: OriginRequest, response: OriginResponse, *, is_relocated: bool) -> bool:
        """Whether the request is to be sent again, to the bucket's region. Raises OriginCredentialFault."""
        if response.status < 300:
            if requester.get() == BACKGROUND:
                await self._body_turns.end_step()
            return False
        if not is_relocated and await self._learn_region(request, response):
            return True
        if response.status in SUSPECT_STATUSES:
            await self._raise_if_credential_refused(request, response)
        return False

    async def _raise_if_credential_refused(self, request: OriginRequest, response: OriginResponse) -> None:
        credential = request.credential
        if isinstance(credential, Unsigned):
            return
        body = await response.peek(REFUSAL_LIMIT) if request.method != "HEAD" else b""
        check, own = self.credential_check, credential is None
        refusal = refusal_in(response.headers, body)
        if refusal is not None:
            self.observe(OriginRefusedCredential(refusal.code))
            raise check.refused(refusal, credential or await self.credentials.current(), own=own)
        if request.method == "HEAD" and (fault := await check.check_if_doubtful(credential)) is not None:
            raise fault

    async def _learn_region(self, request: OriginRequest, response: OriginResponse) -> bool:
        """Whether the response says, as news, that the bucket is in another region than the request was signed for."""
        regions = self._regions
        if regions is None or request.bucket is None or response.status not in REGION_STATUSES:
            return False
        document = await response.peek(REFUSAL_LIMIT) if request.method != "HEAD" else b""
        if not regions.learn(request.bucket, response.headers, document):
            return False
        _log.info("%s is in %s: its requests are signed for it", request.bucket, regions.of(request.bucket))
        return True

    async def region_of(self, bucket: str) -> str:
        """Returns the region of a bucket, by a request if it may be another. Raises OriginError, Throttled, S3Error."""
        if self._regions is None:
            return self.region
        async with await self.send(OriginRequest("HEAD", bucket, operation="HeadBucket")):
            return self._regions.of(bucket)

    @property
    def admits_hedge(self) -> bool:
        """Whether a hedge could be sent now: the breaker is not open, a turn is free, and no request waits for one."""
        return self.reads.in_use < self.reads.capacity and not self.reads.waiting and self.breaker.admit()

    async def _exchange(
        self, request: OriginRequest, body: OutgoingBody | None, adopted: AdoptedRead | None
    ) -> TransportResponse:
        """Sends the request, once more if it may be repeated. `adopted`: it is under way."""
        repeatable = request.is_read and body is None
        fresh = request.is_hedge
        region = self.other_region(request.bucket)
        url = self.endpoint.url_of(request.bucket, request.key, request.query, region)
        while True:
            response: TransportResponse
            try:
                if adopted is not None:
                    (connection, _, started), adopted = adopted, None
                    left = self.limits.answer_timeout - (self.monotonic() - started)
                    response = await self.pool.receive(connection, left)
                elif body is None:
                    head, before = await self.signer.head(request, url, region), request.before_completion
                    started = self.monotonic()
                    response = await self.pool.send(request.method, url.server, head, fresh=fresh, before=before)
                else:
                    headers = await self.signer.headers(request, url, region)
                    started = self.monotonic()
                    response = await self._session.send(request.method, url.yarl, headers, body)
            except ConnectionFault as fault:
                if body is not None and body.failure is not None:
                    raise body.failure from None
                self.observe(OriginFailed(request.operation, fault.error.reason, self.name))
                if repeatable and fault.lost and not fresh:
                    fresh = True
                    self.observe(OriginRetried(request.operation, self.name))
                    continue
                self.breaker.failed((request.bucket, request.key) if fault.connected else None)
                self._reachability.watch()
                raise fault.error from None
            except ValueError:
                raise S3Error("InvalidRequest", "A header of the request can't be sent.") from None
            self.breaker.succeeded()
            if response.status < 300 and request.credential is None:
                self.credential_check.succeeded(started)
            self.observe(OriginAnswered(request.operation, response.status, self.monotonic() - started, self.name))
            if response.status < 300 and not has_end(response):
                self._drop(request, response, _WITHOUT_END)
                raise OriginBroken(_WITHOUT_END)
            return response

    def other_region(self, bucket: str | None) -> str | None:
        """The region of the bucket if it is known to be another than the origin's."""
        if not self._regions:  # none is, mostly
            return None
        region = self._regions.of(bucket)
        return region if region != self.region else None

    def _drop(self, request: OriginRequest, response: TransportResponse, reason: str) -> None:
        response.close()
        self.observe(OriginFailed(request.operation, reason, self.name))

    async def probe(self) -> bool:
        """Whether the origin gives any HTTP response. Unsigned, past the semaphores; one at a time."""
        return await self._reachability.check()

    async def _send_probe(self) -> None:
        await self.pool.probe(self.endpoint.url_of(None, None, ()), PROBE_AGENT)

    @property
    def credentials(self) -> Credentials:
        """Forebay's own."""
        return self.signer.credentials

    def use_credentials(self, credentials: Credentials) -> None:
        """Signs with these from now on."""
        self.signer.credentials = credentials
        self.credential_check.use(credentials)

    async def close(self) -> None:
        """Drops all connections. Responses in progress break."""
        await self.credential_check.close()
        await self._reachability.close()
        await self.pool.close()
        await self._session.close()

    async def __aenter__(self) -> "OriginClient":
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()
