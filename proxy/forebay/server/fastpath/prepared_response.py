"""A prepared response: a hit on one object for one principal and one kind of request, made once.

It is attached to the head it was made from (storage.memory.head_attachments) and ends with that head. All of it was
decided by the functions of the full lane: that the principal may read the object, that a rule accelerates it, how
long the head is fresh. It is good under the policy it was made under.
"""

from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import Final

from multidict import CIMultiDict

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.heads import Head, HeaderPairs
from forebay.core.names import BlockId
from forebay.core.read_log import NO_LOG, LogContext, ReadLog
from forebay.core.read_stream import ReadStream
from forebay.core.request_record import CacheStatus
from forebay.policy.freshness import freshness_lifetime
from forebay.policy.grants import Principal
from forebay.policy.rules import Decision
from forebay.protocol.conditions import ConditionResult, evaluate_conditions
from forebay.protocol.oss.oss_request import condition_value
from forebay.protocol.oss.oss_response_headers import REQUEST_ID as OSS_REQUEST_ID
from forebay.protocol.oss.oss_response_headers import oss_object_headers
from forebay.protocol.response_headers import not_modified_headers, partial_headers, requests_checksums, whole_headers
from forebay.request.admission import Admission
from forebay.server.telemetry.request_counts import HitCounts
from forebay.storage.memory.memory_heads import head_texts

_FIRST: Final = Span(0, 1)
REQUEST_ID: Final = "x-amz-request-id"
_OVERHEAD: Final = 2550
"""Bytes of the objects of a prepared response, beside its texts."""
NO_ENDS: Final = (b"", b"")
"""The ends of the string to sign of an unsigned request."""


class PreparedResponse:
    """See the module. Heads are bytes as they are sent."""

    __slots__ = (
        "_last_verdict",
        "_log_fields",
        "_not_modified",
        "_oss_request",
        "_partial",
        "_request_id",
        "block",
        "checksums",
        "counts",
        "decision",
        "fresh_from",
        "fresh_until",
        "head",
        "ignores_ranges",
        "is_get",
        "name",
        "operation",
        "plain_counts",
        "policy",
        "principal",
        "read_code",
        "read_log",
        "reader",
        "rule",
        "signed_end",
        "signed_start",
        "size",
        "span",
        "speaks_oss",
        "whole",
        "whole_log_fields",
    )

    def __init__(
        self,
        admission: Admission,
        decision: Decision,
        head: Head,
        signed_ends: tuple[bytes, bytes] = NO_ENDS,
    ) -> None:
        """`admission`, `decision`: those of the request; `signed_ends`: the first and the last piece of its string to
        sign.

        Raises UnicodeEncodeError if a header is not ASCII: the full lane sends such responses.
        """
        self.policy, self.operation = admission.policy, admission.operation.name
        self.signed_start, self.signed_end = signed_ends
        self.principal = admission.principal.id
        identities = admission.policy.keyring.origin_identities
        self.reader: Principal | None = admission.principal if self.principal not in identities else None
        """The principal of the request. None if it has an origin credential of its own: then the origin has to permit
        each read, too."""
        self.is_get = admission.method == "GET"
        self.name = name = admission.target.name
        self.head, self.size = head, head.size
        self.span = Span(0, head.size)
        self.decision, self.rule = decision, decision.rule
        self.checksums = requests_checksums(admission.headers)
        self.counts: dict[tuple[int, CacheStatus], HitCounts] = {}
        """The counters of its hits, by status and cache status."""
        self.plain_counts: HitCounts | None = None
        """The counters of hits that are the whole object, from memory."""
        self.block = BlockId(name, head.generation, 0) if 0 < head.size <= head.block_size else None
        """The one block that holds all of it, if there is one."""
        self.fresh_from, self.fresh_until = freshness_lifetime(head.validated_at, decision.freshness)
        self._oss_request = oss = admission.oss_request
        self.speaks_oss = oss is not None
        self.ignores_ranges = oss is not None and oss.ignores_ranges
        self._request_id = f"{REQUEST_ID if oss is None else OSS_REQUEST_ID}: "
        pairs = whole_headers(head.facts, checksums=self.checksums, oss=oss is not None)
        self.whole = _text("HTTP/1.1 200 OK\r\n", self._in_dialect(200, pairs)) + self._request_id.encode()
        """The head of a 200 up to the request's id."""
        self._partial = self._not_modified = b""
        self._last_verdict: tuple[Sequence[tuple[str, bytes]], ConditionResult] | None = None
        self._log_fields = (
            f'"principal":{quoted(admission.principal.id)},"method":"{admission.method}","operation":"{self.operation}",'
            f'"bucket":{quoted(name.bucket)},"key":{quoted(name.key)},"rule":{quoted(decision.rule)},"lane":"fast"'
        )
        self.whole_log_fields = self.log_fields(200, "hit-memory", self.size if self.is_get else 0)
        """The access log's fields for all of the object from memory."""
        self.read_log: ReadLog = NO_LOG
        """The log to which a hit on the whole object appends `read_code`, once reads have a subscriber."""
        self.read_code = 0

    @property
    def cost(self) -> int:
        """The bytes of memory that the prepared response takes, its own copy of the head's texts included."""
        return _OVERHEAD + head_texts(self.name, self.head)

    def note_read(self, reads: ReadStream, span: Span, cache: CacheStatus, *, plain: bool) -> None:
        """Notes a hit that can't be appended to an active log: the first one for a while, or one that is not `plain`
        (the whole object, from memory)."""
        track = self.decision.track
        if plain:
            context = LogContext(self.name.bucket, self.principal, self.rule, track)
            noted = reads.add_whole(context, self.name.key, self.size, self.read_log, self.read_code)
            self.read_log, self.read_code = noted
        else:
            reads.add(ObjectRead(self.name, span, self.size, self.principal, self.rule, cache, 1.0, track))

    def log_fields(self, status: int, cache: CacheStatus, sent: int) -> str:
        """The access log's fields of a hit that are the same for each such hit."""
        return f'{self._log_fields},"status":{status},"cache":"{cache}","received":0,"sent":{sent}'

    def evaluate_conditions(self, conditions: Sequence[tuple[str, bytes]]) -> ConditionResult:
        """The verdict on these conditions: names in lower case, each once, and values as they came.

        The last verdict is kept: a client that reads an object in ranges sends the same conditions each time.
        """
        if self._last_verdict is None or self._last_verdict[0] != conditions:
            own = self._oss_request is None or self._oss_request.origin_is_oss
            headers = CIMultiDict(
                (name, condition_value(name, value.decode("ascii"), origin_is_oss=own)) for name, value in conditions
            )
            verdict = evaluate_conditions(headers, self.head.version.etag, self.head.facts.last_modified)
            self._last_verdict = conditions, verdict
        return self._last_verdict[1]

    def not_modified(self) -> bytes:
        """The head of a 304 up to the request's id."""
        if not self._not_modified:
            pairs = self._in_dialect(304, not_modified_headers(self.head.facts))
            self._not_modified = _text("HTTP/1.1 304 Not Modified\r\n", pairs) + self._request_id.encode()
        return self._not_modified

    def partial(self, span: Span) -> bytes:
        """The head of a 206 with `span` up to the request's id."""
        if not self._partial:
            pairs = partial_headers(self.head.facts, _FIRST, oss=self._oss_request is not None)
            self._partial = _text("HTTP/1.1 206 Partial Content\r\n", self._in_dialect(206, pairs[:-2]))
        size = self.head.size
        return (
            self._partial
            + (
                f"Content-Range: bytes {span.start}-{span.stop - 1}/{size}\r\n"
                f"Content-Length: {span.stop - span.start}\r\n{self._request_id}"
            ).encode()
        )

    def _in_dialect(self, status: int, pairs: HeaderPairs) -> HeaderPairs:
        return pairs if self._oss_request is None else oss_object_headers(self._oss_request, status, pairs)


def _text(line: str, pairs: HeaderPairs) -> bytes:
    return (line + "".join([f"{name}: {value}\r\n" for name, value in pairs])).encode("ascii")
