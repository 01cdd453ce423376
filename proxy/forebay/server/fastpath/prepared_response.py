"""What is ready for a hit on one object, asked for by one principal in one way: made once, used until its head leaves.

It is kept in the memory tier beside the head it was made from (`MemoryTier.attach`), so it ends with it. All that
stands in it was decided by the functions that decide for the full lane: that the principal may read the object, that
the object is accelerated, for how long the head may be believed. It is good under the policy it was made under.
"""

from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import Final

from multidict import CIMultiDict

from forebay.core.byte_ranges import Span
from forebay.core.heads import Head, HeaderPairs
from forebay.core.names import BlockId, ObjectName
from forebay.core.request_record import CacheStatus
from forebay.policy.freshness import lifetime
from forebay.policy.rules import Decision
from forebay.protocol.conditions import Verdict, judge_conditions
from forebay.protocol.oss.oss_request import OssRequest, condition_value
from forebay.protocol.oss.oss_response_headers import REQUEST_ID as OSS_REQUEST_ID
from forebay.protocol.oss.oss_response_headers import oss_object_headers
from forebay.protocol.response_headers import not_modified_headers, partial_headers, whole_headers
from forebay.request.gateway import GatewayPolicy
from forebay.server.telemetry.metrics import HitCounts

_FIRST: Final = Span(0, 1)
REQUEST_ID: Final = "x-amz-request-id"


class PreparedResponse:
    """See the module. Texts are bytes as they go out, up to the request's id."""

    __slots__ = (
        "_last_verdict",
        "_log_fields",
        "_not_modified",
        "_oss_request",
        "_partial",
        "_request_id",
        "block",
        "checksums",
        "counters",
        "decision",
        "fresh_from",
        "fresh_until",
        "head",
        "ignores_ranges",
        "is_get",
        "name",
        "operation",
        "policy",
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
        policy: GatewayPolicy,
        principal: str,
        operation: str,
        method: str,
        name: ObjectName,
        head: Head,
        decision: Decision,
        trusted_from: float,
        *,
        checksums: bool,
        oss_request: OssRequest | None = None,
        signed_ends: tuple[bytes, bytes] = (b"", b""),
    ) -> None:
        """`checksums`: they are asked for. `asked`: what was, by a client that speaks OSS. `ends`: of the signed text,
        its first and its last piece.

        UnicodeEncodeError if a header is not ASCII: such answers are the full lane's.
        """
        self.policy, self.operation = policy, operation
        self.signed_start, self.signed_end = signed_ends
        self.is_get = method == "GET"
        self.name, self.head, self.size, self.rule = name, head, head.size, decision.rule
        self.span = Span(0, head.size)
        self.decision = decision
        self.checksums = checksums
        self.counters: dict[tuple[int, CacheStatus], HitCounts] = {}
        """What hits are counted in, by the status of their answers and where the bytes were."""
        self.block = BlockId(name, head.generation, 0) if 0 < head.size <= head.block_size else None
        """The one block that holds all of it, if one does."""
        self.fresh_from, self.fresh_until = lifetime(head.validated_at, decision.freshness, trusted_from)
        pairs = whole_headers(head.facts, checksums=checksums, oss=oss_request is not None)
        self._oss_request = oss_request
        self.speaks_oss = oss_request is not None
        self.ignores_ranges = oss_request is not None and oss_request.ignores_ranges
        self._request_id = f"{REQUEST_ID if oss_request is None else OSS_REQUEST_ID}: "
        self.whole = _text("HTTP/1.1 200 OK\r\n", self._in_dialect(200, pairs)) + self._request_id.encode()
        self._partial = self._not_modified = b""
        self._last_verdict: tuple[Sequence[tuple[str, bytes]], Verdict] | None = None
        self._log_fields = (
            f'"principal":{quoted(principal)},"method":"{method}","operation":"{operation}",'
            f'"bucket":{quoted(name.bucket)},"key":{quoted(name.key)},"rule":{quoted(decision.rule)},"lane":"fast"'
        )
        self.whole_log_fields = self.log_fields(200, "hit-memory", self.size if self.is_get else 0)
        """What the access log is told of all of the object, from memory."""

    def log_fields(self, status: int, cache: CacheStatus, sent: int) -> str:
        """What the access log is told of an answer, beside what differs each time."""
        return f'{self._log_fields},"status":{status},"cache":"{cache}","received":0,"sent":{sent}'

    def evaluate_conditions(self, conditions: Sequence[tuple[str, bytes]]) -> Verdict:
        """Whether a request with these conditions goes on: names in lower case, each once, and values as they came. The
        last verdict is remembered: a client that reads an object piece by piece says the same each time."""
        if self._last_verdict is None or self._last_verdict[0] != conditions:
            own = self._oss_request is None or self._oss_request.from_oss_origin
            headers = CIMultiDict(
                (name, condition_value(name, value.decode("ascii"), from_oss_origin=own)) for name, value in conditions
            )
            verdict = judge_conditions(headers, self.head.version.etag, self.head.facts.last_modified)
            self._last_verdict = conditions, verdict
        return self._last_verdict[1]

    def not_modified(self) -> bytes:
        """The start of a 304."""
        if not self._not_modified:
            pairs = self._in_dialect(304, not_modified_headers(self.head.facts))
            self._not_modified = _text("HTTP/1.1 304 Not Modified\r\n", pairs) + self._request_id.encode()
        return self._not_modified

    def partial(self, span: Span) -> bytes:
        """The start of a 206 with `span`."""
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
