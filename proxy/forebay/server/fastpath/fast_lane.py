"""The fast lane: answers hits without a task, a framework or a copy of the body.

It answers a request only when nothing is in doubt and nothing is to be waited for: one complete head of a GET or HEAD
on an idle connection (forebay.server.fastpath.request_head, forebay.server.http.request_framing), for an object that
is fresh and whole in memory, or on the SSD and in the page cache. A plain read that is no such hit goes to the gateway
with its admission (`AdmittedRead`); every other request goes to aiohttp with its bytes untouched.

The fast lane makes no decision of its own. It calls the functions of the full lane in the same order; where one of them
raises or gives anything but the plain answer, the full lane repeats the step and answers.

    parse_request_head > parse_target > admit > fresh head > conditions > range > tiers

The results are kept: a head template of the client's requests (head_template, template_cache), and a prepared response
for that object and principal (prepared_response). A request that matches a known template, for which a prepared
response exists, goes a shorter way to the same answer:

    template > signature > freshness of the head > conditions > range > tiers
"""

import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Final, NamedTuple

from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.heads import Head
from forebay.core.request_record import HOST_ID, CacheStatus, new_request_id
from forebay.metadata.resolver import Resolver
from forebay.policy.freshness import requests_revalidation
from forebay.protocol.conditions import NotModified, PreconditionFailed, evaluate_conditions
from forebay.protocol.range_header import (
    WHOLE,
    RangeSpec,
    Unsatisfiable,
    parse_range,
    range_header,
    resolve,
    whole_unless_inside,
)
from forebay.protocol.response_headers import checksums_missing
from forebay.protocol.target import Target, parse_target
from forebay.request.admission import GatewayPolicy, admit
from forebay.request.authentication import Proof
from forebay.request.gateway import Gateway
from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.direct_reply import MAX_JOINED_SIZE
from forebay.server.fastpath.head_template import HeadTemplate, TemplateMatch
from forebay.server.fastpath.hit_body import HitBody, HitBytes
from forebay.server.fastpath.lane_answer import AdmittedRead, HitResponse
from forebay.server.fastpath.prepared_response import NO_ENDS, PreparedResponse
from forebay.server.fastpath.request_head import parse_request_head
from forebay.server.fastpath.template_cache import TemplateCache
from forebay.server.fastpath.unsigned_head import UnsignedHead
from forebay.server.response_heads import SERVER_NAME
from forebay.server.telemetry.access_log import AccessLog
from forebay.server.telemetry.metrics import Metrics
from forebay.storage.memory.head_attachments import HeadAttachments
from forebay.storage.tiers import Tiers

_NO_BYTES: Final = Span(0, 0)
_NO_BODY: Final[HitBytes] = ((), (), "hit-memory")


class HitSources(NamedTuple):
    """The sources of the bytes of hits. `unsent`: the budget of bytes that slow clients have not accepted."""

    resolver: Resolver
    tiers: Tiers
    unsent: SemaphoreShare


class HitTelemetry(NamedTuple):
    """The destinations of a hit's record."""

    metrics: Metrics
    access_log: AccessLog | None


class FastLane:
    """Answers hits of one worker. `clock`: seconds since the epoch, the time that signatures are checked against."""

    def __init__(
        self, gateway: Gateway, sources: HitSources, telemetry: HitTelemetry, clock: Callable[[], float] = time.time
    ) -> None:
        self._gateway = gateway
        self._resolver, tiers, unsent = sources
        self._memory = tiers.memory
        attachments = HeadAttachments[PreparedResponse](self._memory)
        self._attach, self._prepared = attachments.attach, attachments.by_key
        self._hit_body = HitBody(tiers, unsent)
        self._in_doubt_writes, self._freshness_clock = self._resolver.heads.in_doubt_writes, self._resolver.heads.clock
        self._metrics, self._access_log = telemetry
        self._clock = clock
        self._templates = TemplateCache[HeadTemplate]()
        self._second = 0
        self._policy = gateway.policy
        """The policy that the last lines were made under."""
        self._last_lines: dict[CacheStatus, bytes] = {}
        """The rest of a response head behind the request id, by the cache status of the response."""
        self._oss_last_lines: dict[CacheStatus, bytes] = {}
        self._reads = gateway.reader.reads

    def answer(self, data: bytes, client: ClientState) -> HitResponse | AdmittedRead | None:
        """Answers the request with the head `data`: a complete response, or an admitted read for the gateway.

        None: the request is for aiohttp, and nothing was done.
        """
        started = time.monotonic()
        policy, template = self._gateway.policy, client.template
        matched = template.match(data) if template is not None and template.policy is policy else None
        if template is None or matched is None:
            found = self._templates.lookup(data, policy)
            if found is None:
                return self._answer_unprepared(data, client, started)
            template, matched = found
            client.template = template
        line, values, signature = matched
        prepared = self._prepared.get(template.key + line)
        if prepared is None or prepared.policy is not policy:
            return self._answer_unprepared(data, client, started, matched)
        now = self._clock()
        if not template.signature.verifies(prepared.signed_start, prepared.signed_end, values, signature, now):
            return self._answer_unprepared(data, client, started, matched, has_wrong_signature=True)
        if (
            self._in_doubt_writes.marked or not prepared.fresh_from <= self._freshness_clock() < prepared.fresh_until
        ) and self._resolver.fresh_head(prepared.name, prepared.decision, no_cache=False) is not prepared.head:
            return self._answer_unprepared(data, client, started, matched)
        if template.identity is not None and not self._resolver.is_permitted(prepared.name, template.identity):
            return self._answer_unprepared(data, client, started, matched)
        if template.conditions:
            verdict = prepared.evaluate_conditions([(name, values[at]) for name, at in template.conditions])
            if isinstance(verdict, PreconditionFailed):
                return self._answer_unprepared(data, client, started, matched)
            if isinstance(verdict, NotModified):
                self._memory.heads.mark_used(prepared.name)
                return self._hit_response(prepared, None, client, started, now)
        spec: RangeSpec = WHOLE
        if template.range_index >= 0:
            if prepared.speaks_oss and not prepared.is_get:
                # What a range means then differs by operation.
                return self._answer_unprepared(data, client, started, matched)
            spec = parse_range(values[template.range_index].decode("ascii"))
            if prepared.ignores_ranges:
                spec = whole_unless_inside(spec, prepared.size)
        self._memory.heads.mark_used(prepared.name)
        answer = self._hit_response(prepared, spec, client, started, now)
        return answer or self._answer_unprepared(data, client, started, matched)

    def _answer_unprepared(
        self,
        data: bytes,
        client: ClientState,
        started: float,
        matched: TemplateMatch | None = None,
        *,
        has_wrong_signature: bool = False,
    ) -> HitResponse | AdmittedRead | None:
        """`answer` for a request without a prepared response. `matched`: how it matches the client's template;
        `has_wrong_signature`: the template's verification failed, so only a full one can prove it."""
        template = client.template if matched is not None else None
        admitted = self._admit(data, client, template, None if has_wrong_signature else matched, started)
        if admitted is None:
            return None
        admitted_read, target, signed_start, head = admitted
        admission, now = admitted_read.admission, admitted_read.received_at
        name, decision, signed = admission.name, admission.decision, admission.signed
        if template is None and signed is not None:
            template = HeadTemplate.build(data, target, admitted_read.headers, admission)
            if template is not None:
                self._templates.add(data, template)
                client.template, matched = template, template.match(data)
        if name is None or decision is None or (decision.warm_on_head and admitted_read.method == "HEAD"):
            return admitted_read  # it may be a hint, which the object reader knows
        if head is None:
            return admitted_read
        no_cache = requests_revalidation(admission.headers)
        if not self._resolver.is_usable(name, head, decision, no_cache, admission.identity):
            return admitted_read
        verdict = evaluate_conditions(admission.headers, head.version.etag, head.facts.last_modified)
        if isinstance(verdict, PreconditionFailed):
            return admitted_read
        ends = (signed_start, b"") if signed_start is not None else signed.text.ends if signed is not None else NO_ENDS
        try:
            prepared = PreparedResponse(admission, decision, head, ends)
        except UnicodeEncodeError:
            return admitted_read
        spec: RangeSpec | None = None
        if not isinstance(verdict, NotModified):
            spec = parse_range(range_header(admission.headers))
            if admission.oss_request is not None and admission.oss_request.lenient_range:
                spec = whole_unless_inside(spec, head.size)
        answer = self._hit_response(prepared, spec, client, started, now)
        if answer is None:
            return admitted_read
        if template is not None and matched is not None:
            self._attach(name, head, template.key + matched[0], prepared)
        return answer

    def _admit(
        self,
        data: bytes,
        client: ClientState,
        template: HeadTemplate | None,
        matched: TemplateMatch | None,
        started: float,
    ) -> tuple[AdmittedRead, Target, bytes | None, Head | None] | None:
        """Returns the admitted read with the head `data`, its target as received, the start of its string to sign if
        the template has verified it, and the current head of the object. None: it is for aiohttp."""
        policy, now = self._gateway.policy, self._clock()
        repeated = client.unsigned.admit(data, policy) if client.unsigned is not None else None
        if repeated is not None:
            raw_target, headers, admission = repeated
            method, target, signed_start = "GET", admission.target, None
        else:
            request = parse_request_head(data)
            if request is None:
                return None
            method, raw_target, headers = request
            if policy.answers_pages and "Origin" in headers:
                return None  # its response has headers of its own; no template is made of it
            signed_start, proof = None, None
            try:
                target = parse_target(raw_target, headers["Host"], policy.domains, policy.cnames)
                if target.key is None:
                    return None
                if template is not None and matched is not None:
                    signed_start = template.verify(matched, method, target, now)
                    proof = Proof(template.principal, template.signed) if signed_start is not None else None
                admission = admit(policy, method, target, headers, now, proof=proof)
            except S3Error:
                return None
            client.unsigned = UnsignedHead.learn(data, headers, admission)
        name, decision = admission.name, admission.decision
        if name is None or not admission.operation.is_plain_read or decision is None or not decision.accelerate:
            return None
        if not admission.permit.covers(name):
            return None
        head = self._resolver.heads.current(name)
        read = AdmittedRead(method, raw_target, headers, started, now, admission, head is None)
        return read, target, signed_start, head

    def _hit_response(
        self, prepared: PreparedResponse, spec: RangeSpec | None, client: ClientState, started: float, now: float
    ) -> HitResponse | None:
        """The complete response, or None if the bytes cannot be had without waiting. `spec` None: a 304.

        select the bytes > find them in the tiers > record the hit > join head and body
        """
        if spec is WHOLE:
            status, length, start, span = 200, prepared.size, prepared.whole, prepared.span
            if prepared.checksums and checksums_missing(prepared.head.facts):
                return None
        else:
            selected = _select(prepared, spec)
            if selected is None:
                return None
            status, length, start, span = selected
        if not prepared.is_get:
            length = 0
        found = self._hit_body.find(prepared, span, client) if length else _NO_BODY
        if found is None:
            return None
        body, extents, cache = found
        request_id = new_request_id()
        second = int(now)
        if second != self._second or prepared.policy is not self._policy:
            self._prepare_last_lines(second, prepared.policy)
        end = self._oss_last_lines[cache] if prepared.speaks_oss else self._last_lines[cache]
        self._record_hit(prepared, status, span, length, cache, request_id, client.peer, started, now)
        if length <= MAX_JOINED_SIZE:
            return b"".join((start, request_id.encode(), end, *body)), (), (), 0
        client.reader = prepared.reader
        return b"".join((start, request_id.encode(), end)), body, extents, length

    def _record_hit(
        self,
        prepared: PreparedResponse,
        status: int,
        span: Span,
        length: int,
        cache: CacheStatus,
        request_id: str,
        peer: str,
        started: float,
        now: float,
    ) -> None:
        """Records a hit in the metrics, the read stream and the access log. `length`: bytes of its body."""
        duration = time.monotonic() - started
        is_plain = status == 200 and cache == "hit-memory"
        counts = prepared.plain_counts if is_plain else prepared.counts.get((status, cache))
        if counts is None:
            counts = self._metrics.hit_counts(prepared.operation, status, prepared.rule, cache, prepared.principal)
            if is_plain:
                prepared.plain_counts = counts
            else:
                prepared.counts[status, cache] = counts
        counts.add(length, duration)
        if length:
            log = prepared.read_log
            if is_plain and log.is_active:
                log.append(prepared.read_code)
            elif self._reads.is_open:
                prepared.note_read(self._reads, span, cache, plain=is_plain)
        if self._access_log is not None:
            fields = prepared.whole_log_fields if is_plain else prepared.log_fields(status, cache, length)
            self._access_log.write_hit(now, request_id, peer, fields, duration)

    def _prepare_last_lines(self, second: int, policy: GatewayPolicy) -> None:
        """Makes the lines that follow the request id in the response heads of this second. They are equal to those of
        the full lane, byte for byte (held by a test)."""
        date = formatdate(second, usegmt=True)
        isolation = "".join([f"{name}: {value}\r\n" for name, value in policy.isolation_headers])
        self._second, self._policy = second, policy
        cache: CacheStatus
        for cache in ("hit-memory", "hit-ssd"):
            start = f"\r\nx-forebay-cache: {cache}\r\n"
            end = f"Server: {SERVER_NAME}\r\n{isolation}Date: {date}\r\n\r\n"
            self._last_lines[cache] = f"{start}x-amz-id-2: {HOST_ID}\r\n{end}".encode()
            self._oss_last_lines[cache] = f"{start}{end}".encode()


def _select(prepared: PreparedResponse, spec: RangeSpec | None) -> tuple[int, int, bytes, Span] | None:
    """The status, the size of the body, the beginning of the head and the bytes of a response that is not the whole
    object; None for an unsatisfiable range. `spec` None: a 304."""
    if spec is None:
        return 304, 0, prepared.not_modified(), _NO_BYTES
    span = resolve(spec, prepared.size)
    if isinstance(span, Unsatisfiable):
        return None
    return 206, span.stop - span.start, prepared.partial(span), span
