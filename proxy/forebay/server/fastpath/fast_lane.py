"""The fast lane: the short way of a hit, without a task, a framework or a copy of the body.

It takes a request only when nothing is left to doubt or to wait for: one complete head of a GET or HEAD on a connection
that rests (fasthead, boundary), whose answer is fresh and whole in memory, or on the SSD and in the page cache.
A plain read that is no such hit goes to the story as it was understood (`Read`); everything else, bytes untouched, to
aiohttp. It makes no decision of its own: it calls the same functions in the same order, and where one of them raises,
or says anything but the plain answer, the full lane says it again and tells the client.

    read_head > parse_target > authenticate > classify > authorise > rules > believed > conditions > range > tiers

What that comes to is kept: the shape of the client's heads (shape, shapes), and what is ready for a hit on that object
by that principal (ready). A request of a known shape, for which something is ready, goes a shorter way to the same
answer:

    shape > the signature > how long the head may be believed > conditions > range > tiers
"""

import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import Final, NamedTuple, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.request_record import CacheStatus
from forebay.metadata.resolver import Resolver
from forebay.policy.access import Principal, authorise
from forebay.policy.freshness import asks_revalidation
from forebay.protocol.conditions import NotModified, PreconditionFailed, judge_conditions
from forebay.protocol.header_map import Headers
from forebay.protocol.operations import classify
from forebay.protocol.range_header import WHOLE, RangeSpec, Unsatisfiable, parse_range, range_of, resolve, within
from forebay.protocol.response_headers import asks_checksums, checksums_missing
from forebay.protocol.signatures.hoisted_headers import lifted
from forebay.protocol.signatures.verified import Signed
from forebay.protocol.target import Target, parse_target
from forebay.request.authentication import authenticate
from forebay.request.gateway import Admitted, Gateway, GatewayPolicy, new_request_id
from forebay.server.fastpath.direct_reply import MAX_JOINED_SIZE
from forebay.server.fastpath.head_template import HeadTemplate, TemplateMatch
from forebay.server.fastpath.hit_body import MIN_SENDFILE_SIZE, HitBody
from forebay.server.fastpath.prepared_response import PreparedResponse
from forebay.server.fastpath.request_head import parse_request_head
from forebay.server.fastpath.template_cache import TemplateCache
from forebay.server.http.aiohttp_exchange import HOST_ID, SERVER_NAME
from forebay.server.http.sendfile_writer import FileExtent, SendfileWriter
from forebay.server.telemetry.access_log import AccessLog
from forebay.server.telemetry.metrics import Metrics
from forebay.storage.tiers import Tiers

MAX_BODY_SIZE: Final = 16 << 20
"""Bytes of a body that is answered here. A larger one is sent block by block by the full lane, at no greater cost."""


HitResponse: TypeAlias = tuple[bytes, Sequence[Buffer], Sequence[FileExtent], int]
"""What to write: the head, the body's pieces, in one form or the other, and how many bytes these are. A small body is
joined to its head: then there are no pieces. A plain tuple, as making one of a class of its own takes ten times as
long."""


class AdmittedRead(NamedTuple):
    """A plain read that is no hit: its head, as it was read, and how far it has come."""

    method: str
    raw_target: str
    headers: Headers
    started: float
    """On the monotonic clock."""
    received_at: float
    """Seconds since the epoch."""
    admitted: Admitted


class HitSources(NamedTuple):
    """What hits are answered from."""

    resolver: Resolver
    tiers: Tiers
    budget: FairSemaphore


class HitTelemetry(NamedTuple):
    """Whom hits are told to."""

    metrics: Metrics
    access_log: AccessLog | None


class ClientState:
    """Who is at the other end of a connection, and how its requests look."""

    __slots__ = ("_make_sender", "_sender", "has_unsent", "peer", "template")

    def __init__(self, peer: str, make_sender: Callable[[], SendfileWriter] | None = None) -> None:
        """`make_sender`: for bodies that go past the transport; None where they can't."""
        self.peer = peer
        self._make_sender = make_sender
        self._sender: SendfileWriter | None = None
        self.template: HeadTemplate | None = None
        """Of the last request that had one. It proves nothing of who is there."""
        self.has_unsent = False
        """Whether answers are made that are yet to be written: no body may overtake them."""

    @property
    def sender(self) -> SendfileWriter | None:
        """What sends blocks as they are, made when it is first wanted; None if it can't now."""
        if self._sender is None and self._make_sender is not None:
            try:
                self._sender = self._make_sender()
            except OSError:
                self._make_sender = None  # no descriptor is left: it goes through the transport from now on
        return self._sender if self._sender is not None and self._sender.is_free and not self.has_unsent else None


class FastLane:
    """Answers hits of one worker. `clock`: seconds since the epoch, what signatures are judged by."""

    def __init__(
        self, gateway: Gateway, hits: HitSources, telling: HitTelemetry, clock: Callable[[], float] = time.time
    ) -> None:
        self._gateway = gateway
        self._resolver, self._tiers, self._budget = hits
        self._memory = self._tiers.memory
        self._hit_body = HitBody(self._tiers)
        self._doubts = self._resolver.in_doubt_writes
        self._metrics, self._access_log = telling
        self._clock = clock
        self._templates = TemplateCache()
        self._second = 0
        self._ends: dict[CacheStatus, bytes] = {}
        self._oss_ends: dict[CacheStatus, bytes] = {}

    def answer(self, data: bytes, client: ClientState) -> HitResponse | AdmittedRead | None:
        """The whole answer to the request that `data` is. Otherwise nothing has happened: a plain read is given as it
        was understood, None for what is to be read from the start by others."""
        started = time.monotonic()
        policy, template = self._gateway.policy, client.template
        matched = template.match(data) if template is not None and template.policy is policy else None
        if template is None or matched is None:
            found = self._templates.lookup(data, policy)
            if found is None:
                return self._read(data, client, started)
            template, matched = found
            client.template = template
        line, values, signature = matched
        prepared: PreparedResponse | None = self._memory.attachments.get(template.key + line)
        if prepared is None or prepared.policy is not policy:
            return self._read(data, client, started, matched)
        now = self._clock()
        if not template.signature.holds(prepared.signed_start, prepared.signed_end, values, signature, now):
            return self._read(data, client, started, matched, proved=False)
        if (
            self._doubts.raised or not prepared.fresh_from <= self._resolver.clock() < prepared.fresh_until
        ) and self._resolver.fresh_head(prepared.name, prepared.decision, no_cache=False) is not prepared.head:
            return self._read(data, client, started, matched)
        if template.identity is not None and not self._resolver.is_permitted(prepared.name, template.identity):
            return self._read(data, client, started, matched)
        if template.conditions:
            verdict = prepared.evaluate_conditions([(name, values[at]) for name, at in template.conditions])
            if isinstance(verdict, PreconditionFailed):
                return self._read(data, client, started, matched)
            if isinstance(verdict, NotModified):
                self._memory.mark_used(prepared.name)
                return self._answer(prepared, None, client, started, now)
        spec: RangeSpec = WHOLE
        if template.range_index >= 0:
            if prepared.speaks_oss and not prepared.is_get:
                return self._read(data, client, started, matched)  # what a range means then differs by operation
            spec = parse_range(values[template.range_index].decode("ascii"))
            if prepared.ignores_ranges:
                spec = within(spec, prepared.size)
        self._memory.mark_used(prepared.name)
        return self._answer(prepared, spec, client, started, now) or self._read(data, client, started, matched)

    def _read(
        self,
        data: bytes,
        client: ClientState,
        started: float,
        matched: TemplateMatch | None = None,
        *,
        proved: bool = True,
    ) -> HitResponse | AdmittedRead | None:
        """`answer` to a request for which nothing is ready. `said`: what it says beyond its shape, which is the
        caller's; `proved` False: but its signature is wrong."""
        request = parse_request_head(data)
        if request is None:
            return None
        method, raw_target, given = request
        headers: Headers = given
        policy, now = self._gateway.policy, self._clock()
        try:
            target = parse_target(raw_target, headers["Host"], policy.domains, policy.cnames)
            if target.key is None:
                return None
            template = client.template if matched is not None else None
            proof = (
                self._verify_by_template(template, matched, method, target, now)
                if template is not None and matched and proved
                else None
            )
            principal, signed, ends = proof or _authenticated(policy, method, target, headers, now)
            asked = self._gateway.oss_frontend.translate(method, target, headers, signed)
            aimed, meant = lifted(target, headers) if asked is None else (asked.target, asked.headers)
            operation = classify(method, aimed, meant)
            if not operation.plain_read:
                return None
            name = aimed.name
            permit = authorise(principal, operation, aimed)
        except S3Error:
            return None
        decision = policy.rules.decide(name)
        if not decision.accelerate or not permit.covers(name):
            return None
        identity = policy.keyring.origin_identities.get(principal.id)
        admitted = Admitted(target, principal, signed, asked, operation, permit, decision, identity)
        admitted_read = AdmittedRead(method, raw_target, given, started, now, admitted)
        if template is None and signed is not None:
            template = HeadTemplate.build(data, method, target, headers, meant, asked, signed, policy, principal)
            if template is not None:
                self._templates.add(data, template)
                client.template, matched = template, template.match(data)
        head = self._resolver.fresh_head(name, decision, no_cache=asks_revalidation(meant), identity=identity)
        if head is None:
            return admitted_read
        verdict = judge_conditions(meant, head.version.etag, head.facts.last_modified)
        if isinstance(verdict, PreconditionFailed):
            return admitted_read
        try:
            prepared = PreparedResponse(
                policy,
                principal.id,
                operation.name,
                method,
                name,
                head,
                decision,
                self._tiers.trusted_from,
                checksums=asks_checksums(meant),
                oss_request=asked,
                signed_ends=ends,
            )
        except UnicodeEncodeError:
            return admitted_read
        spec: RangeSpec | None = None
        if not isinstance(verdict, NotModified):
            spec = parse_range(range_of(meant))
            if asked is not None and asked.lenient_range:
                spec = within(spec, head.size)
        answer = self._answer(prepared, spec, client, started, now)
        if answer is not None and template is not None and matched is not None:
            self._memory.attach(name, head, template.key + matched[0], prepared)
        return answer if answer is not None else admitted_read

    def _verify_by_template(
        self, template: HeadTemplate, matched: TemplateMatch, method: str, target: Target, now: float
    ) -> tuple[Principal, Signed, tuple[bytes, bytes]] | None:
        """Who signed a request of this shape, by the shape; None for one that is to be verified in full.

        That takes as long whatever is ready: who can't sign must not learn by the time it takes what is here.
        """
        first = template.signature.first_of(method, target)
        if not template.signature.holds(first or b"", b"", matched[1], matched[2], now) or first is None:
            return None
        return template.principal, template.signed, (first, b"")

    def _answer(
        self, prepared: PreparedResponse, spec: RangeSpec | None, client: ClientState, started: float, now: float
    ) -> HitResponse | None:
        """The answer from what is ready, if the bytes are at hand. `spec` None: the client has them."""
        if spec is WHOLE:
            status, length, start, span = 200, prepared.size, prepared.whole, prepared.span
            if prepared.checksums and checksums_missing(prepared.head.facts):
                return None
        elif spec is None:
            status, length, start, span = 304, 0, prepared.not_modified(), Span(0, 0)
        else:
            found_span = resolve(spec, prepared.size)
            if isinstance(found_span, Unsatisfiable):
                return None
            span = found_span
            status, length, start = 206, span.stop - span.start, prepared.partial(span)
        cache: CacheStatus = "hit-memory"
        body: Sequence[Buffer] = ()
        stretches: Sequence[FileExtent] = ()
        if prepared.is_get and length:
            # Small and whole in memory, as most are: without a step that only others need.
            block = (
                self._memory.get(prepared.block) if length <= MAX_JOINED_SIZE and prepared.block is not None else None
            )
            if block is not None:
                body = (block if length == prepared.size else block[span.start : span.stop],)
            else:
                if length > MAX_JOINED_SIZE and (length > MAX_BODY_SIZE or not self._is_affordable(length)):
                    return None
                found = self._hit_body.find(
                    prepared, span, direct=length >= MIN_SENDFILE_SIZE and client.sender is not None
                )
                if found is None:
                    return None
                body, stretches, cache = found
        else:
            length = 0
        request_id = new_request_id()
        second = int(now)
        if second != self._second:
            self._new_second(second)
        end = self._oss_ends[cache] if prepared.speaks_oss else self._ends[cache]
        ended = time.monotonic()
        tally = prepared.counters.get((status, cache))
        if tally is None:
            tally = self._metrics.hit_counts(prepared.operation, status, prepared.rule, cache)
            prepared.counters[status, cache] = tally
        tally.add(length, ended - started)
        if self._access_log is not None:
            plain = spec is WHOLE and cache == "hit-memory"
            whole_log_fields = prepared.whole_log_fields if plain else prepared.log_fields(status, cache, length)
            self._access_log.write_hit(now, request_id, client.peer, whole_log_fields, ended - started)
        if length <= MAX_JOINED_SIZE:
            return b"".join((start, request_id.encode(), end, *body)), (), (), 0
        return b"".join((start, request_id.encode(), end)), body, stretches, length

    def _is_affordable(self, size: int) -> bool:
        """Whether the budget would stand a client that takes not a byte of these for now."""
        return self._budget.waiting == 0 and self._budget.in_use + size <= self._budget.capacity

    def _new_second(self, second: int) -> None:
        """What comes behind the request's id, as the full lane writes it, byte for byte (held by a test)."""
        date = formatdate(second, usegmt=True)
        self._second = second
        cache: CacheStatus
        for cache in ("hit-memory", "hit-ssd"):
            start, end = f"\r\nx-forebay-cache: {cache}\r\n", f"Server: {SERVER_NAME}\r\nDate: {date}\r\n\r\n"
            self._ends[cache] = f"{start}x-amz-id-2: {HOST_ID}\r\n{end}".encode()
            self._oss_ends[cache] = f"{start}{end}".encode()


def _authenticated(
    policy: GatewayPolicy, method: str, target: Target, headers: Headers, now: float
) -> tuple[Principal, Signed | None, tuple[bytes, bytes]]:
    """Who signed it, what it proves, and the ends of what was signed. Raises S3Error."""
    principal, signed = authenticate(policy.keyring, method, target, headers, now)
    return principal, signed, (b"", b"") if signed is None else signed.text.ends
