"""Head templates: the common lines of the heads of a client's requests.

    GET /bucket/key HTTP/1.1                          the request line        differs
    Host: 127.0.0.1:9000                              fixed                   the same bytes each time
    User-Agent: Boto3/1.40 ...                        fixed
    Range: bytes=0-65535                              varies                  within a pattern of its own
    X-Amz-Date: 20261120T120000Z                      the time                differs
    Authorization: AWS4-HMAC-SHA256 ..., Signature=   fixed up to the signature

    GET /bucket/key?X-Amz-Credential=...&X-Amz-Date=20261120T120000Z&X-Amz-Expires=600&...&X-Amz-Signature=... HTTP/1.1
        differs    |fixed               |differs         |fixed         |diff|fixed                |differs

A template is made from a request that was parsed (forebay.server.fastpath.request_head) and admitted in full. Another
head is matched by comparing its lines, and the query of a presigned URL piece by piece. Equal bytes mean what they
meant before, so the facts found for the first request hold: one plain Host, no body, nothing that bears on framing,
every header as it was. A head that differs anywhere else does not match and is parsed in full.

A match proves nothing. The signature of every request is verified, by forebay.protocol.signatures.signature_template.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, TypeAlias

from forebay.core.errors import S3Error
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.freshness import requests_revalidation
from forebay.policy.grants import Principal
from forebay.protocol.header_map import Headers
from forebay.protocol.response_headers import requests_checksums
from forebay.protocol.signatures.oss_claim import ClaimOssV4
from forebay.protocol.signatures.signature_template import SignatureTemplate, TemplateClaim, times_of
from forebay.protocol.signatures.sigv4_claim import ClaimV4, read_claim
from forebay.protocol.signatures.verified_signature import Signed
from forebay.protocol.target import Target
from forebay.request.admission import Admission, GatewayPolicy

CONDITIONS: Final = ("if-match", "if-modified-since", "if-none-match", "if-unmodified-since")
# Fields that clients write anew for each request. A value is visible ASCII with single blanks inside: canonical.
ANY: Final = re.compile(rb"[!-~]+(?: [!-~]+)*")
VARYING: Final = {
    "range": re.compile(rb"bytes=[0-9]{0,18}-[0-9]{0,18}"),
    **dict.fromkeys(CONDITIONS, ANY),
    "amz-sdk-invocation-id": ANY,
    "amz-sdk-request": ANY,
    "date": ANY,
    "traceparent": ANY,
    "tracestate": ANY,
    "x-amzn-trace-id": ANY,
}
_VERSION: Final = b" HTTP/1.1"
_CR: Final = ord("\r")

TemplateMatch: TypeAlias = tuple[bytes, list[bytes], bytes]
"""The differences of a head from its template: the request line, without the query of a presigned URL; the values that
differ, the time first, then those of the varying headers in the order of their lines; the signature. A plain tuple, as
an instance of a class takes ten times as long to make."""


class _PlainForm(NamedTuple):
    """A head that differs behind its first line in the time and the signature alone, in this order: what is fixed, and
    where it and they are, counted from the end of the line."""

    start: bytes
    time: int
    middle: bytes
    middle_at: int
    signature: int
    end: bytes
    end_at: int
    size: int


@dataclass(slots=True, eq=False, init=False)
class HeadTemplate:
    """A template for one principal, under one policy. See the module."""

    _lines: list[bytes | None]
    """The fixed lines; None in place of the others."""
    _line_count: int
    _plain: _PlainForm | None
    """The form of most heads; None for a template of any other."""
    _pieces: list[bytes]
    """The fixed pieces of a presigned URL's query and the rest of its line; empty where a header has the signature."""
    _gap_indices: tuple[int, ...]
    """The gaps between the pieces that hold the time, and last the signature."""
    _is_percent_encoded: bool
    """Whether the signature in the query may be percent-encoded."""
    _time_line: int
    _time_start: bytes
    _time_end: int
    _signature_line: int
    _signature_start: bytes
    _signature_end: int
    _varying: list[tuple[int, bytes, re.Pattern[bytes]]]
    """The index of the line, its bytes up to the value, and the pattern of the value."""
    policy: GatewayPolicy
    principal: Principal
    identity: OriginIdentity | None
    signed: Signed
    """The verified signature of the first request. Key, scope and form are those of every request that matches."""
    signature: SignatureTemplate
    key: bytes
    """Together with the request line, the key of a prepared response. It covers everything else that decides the
    response: principal, form of the signature, Host, the rest of the query."""
    range_index: int
    """The index of the Range among the values that differ; -1: there is none."""
    conditions: tuple[tuple[str, int], ...]
    """The conditions and the indices of their values."""
    indices: dict[str, int]
    """The index of each varying header's value."""

    @classmethod
    def build(
        cls,
        data: bytes,
        target: Target,
        headers: Headers,
        admission: Admission,
        pattern_of: Callable[[str], re.Pattern[bytes] | None] = VARYING.get,
    ) -> Self | None:
        """The template of an admitted request with the head `data`, or None if there can be none. `target` and
        `headers` as received. `pattern_of`: of the values that a header may have, by its name in lower case; None for
        one that has the same each time."""
        signed, policy, method = admission.signed, admission.policy, admission.method
        claim = read_claim(target, headers)
        if signed is None or not isinstance(claim, TemplateClaim) or requests_revalidation(admission.headers):
            return None
        lines: list[bytes | None] = [*data.split(b"\r\n")]
        names = [(line or b"").partition(b":")[0].decode("ascii").lower() for line in lines]
        times = times_of(claim, headers)
        patterns = {
            at: pattern
            for at, name in enumerate(names)
            if at and name not in times and (pattern := pattern_of(name)) is not None
        }
        named = [names[at] for at in patterns]
        if len(set(named)) < len(named):
            return None
        template = cls()
        secret = policy.keyring.secrets[claim.access_key]
        try:
            template.signature = SignatureTemplate(claim, method, target, headers, secret, named)
            gaps = (
                template._locate_in_query(data, claim, times)
                if claim.form == "query"
                else template._locate_in_lines(lines, names, claim, times[0], headers)
            )
        except (ValueError, S3Error):
            return None
        template.signed, template.policy, template.principal = signed, policy, admission.principal
        template.identity = admission.identity
        template._varying = [(at, _prefix(lines[at] or b""), pattern) for at, pattern in patterns.items()]
        template.indices = indices = {name: len(times) + index for index, name in enumerate(named)}
        template.range_index = indices.get("range", -1)
        template.conditions = tuple((name, indices[name]) for name in CONDITIONS if name in indices)
        template.key = template._make_key(headers["Host"], admission)
        template._plain = template._plain_form(data) if claim.form == "header" and not patterns else None
        for at in (0, *gaps, *patterns):
            lines[at] = None
        template._lines, template._line_count = lines, len(lines)
        return template if template.match(data) is not None else None

    def _make_key(self, host: str, admission: Admission) -> bytes:
        oss_request = admission.oss_request
        texts = (
            admission.principal.id,
            host,
            self.signature.kind,
            "checksums" if requests_checksums(admission.headers) else "",
            "ignores ranges" if oss_request is not None and oss_request.ignores_ranges else "",
        )
        return b"\0".join((*(text.encode() for text in texts), *self._pieces, b""))

    def _locate_in_lines(
        self, lines: Sequence[bytes | None], names: Sequence[str], claim: TemplateClaim, time: str, headers: Headers
    ) -> tuple[int, ...]:
        """The lines of the time and the signature. ValueError if they are not where they should be."""
        self._time_line, self._signature_line, self._pieces = names.index(time), names.index("authorization"), []
        dated, signed = lines[self._time_line] or b"", lines[self._signature_line] or b""
        value, signature = headers[time].encode(), claim.signature.encode()
        if names.count(time) > 1 or not (dated.endswith(value) and signed.endswith(signature) and value):
            raise ValueError("the time or the signature is not at the end of its line")
        self._time_start, self._time_end = dated[: -len(value)], len(dated)
        self._signature_start, self._signature_end = signed[: -len(signature)], len(signed)
        return self._time_line, self._signature_line

    def _plain_form(self, data: bytes) -> _PlainForm | None:
        """The form of the head `data`, in which the time and the signature have been located."""
        if self._time_line > self._signature_line:
            return None
        rest = data[data.index(b"\r\n") :]
        ends = [0]
        for line in rest.split(b"\r\n")[1:]:
            ends.append(ends[-1] + 2 + len(line))
        time, signature = ends[self._time_line - 1] + 2, ends[self._signature_line - 1] + 2
        time, middle_at = time + len(self._time_start), ends[self._time_line]
        signature, end_at = signature + len(self._signature_start), ends[self._signature_line]
        middle = rest[middle_at:signature]
        return _PlainForm(rest[:time], time, middle, middle_at, signature, rest[end_at:], end_at, len(rest))

    def _locate_in_query(self, data: bytes, claim: TemplateClaim, times: Sequence[str]) -> tuple[int, ...]:
        """Finds the fixed pieces of the query. ValueError if it does not have each of the other parameters once."""
        signature = {ClaimV4: "X-Amz-Signature", ClaimOssV4: "x-oss-signature"}.get(type(claim), "Signature")
        wanted = [name.encode() for name in (*times, signature)]
        query = data[: data.index(b"\r\n")].partition(b"?")[2].removesuffix(_VERSION)
        fixed, found = [b""], list[bytes]()
        for pair in query.split(b"&"):
            name, equals, _ = pair.partition(b"=")
            fixed[-1] += b"&" if found or fixed[-1] else b""
            if equals and name in wanted:
                fixed[-1] += name + equals
                fixed.append(b"")
                found.append(name)
            else:
                fixed[-1] += pair
        fixed[-1] += _VERSION
        if sorted(found) != sorted(wanted):
            raise ValueError("a parameter of the signature is missing or repeated")
        self._pieces, self._gap_indices = fixed, tuple(found.index(name) for name in wanted)
        self._is_percent_encoded = not isinstance(claim, ClaimV4 | ClaimOssV4)
        return ()

    def verify(self, matched: TemplateMatch, method: str, target: Target, now: float) -> bytes | None:
        """Verifies the signature of a request that matches. Returns the start of its string to sign, or None for a
        request that is to be verified in full.

        The time that this takes does not depend on the cache: a client that cannot sign must not learn from it which
        objects are cached.
        """
        start = self.signature.first_piece(method, target)
        is_valid = self.signature.verifies(start or b"", b"", matched[1], matched[2], now)
        return start if is_valid else None

    def match(self, data: bytes) -> TemplateMatch | None:
        """Returns the differences of the head `data` from this template; None if it does not match."""
        if self._plain is not None:
            start, time, middle, middle_at, signature_at, end, end_at, size = self._plain
            at = data.find(b"\r\n")
            if (
                len(data) == at + size
                and data.startswith(start, at)
                and data.startswith(middle, at + middle_at)
                and data.startswith(end, at + end_at)
            ):
                value, signature = data[at + time : at + middle_at], data[at + signature_at : at + end_at]
                # Else there may be more lines than it seems. A number: `in` takes bytes for one first, by an exception.
                if _CR not in value and _CR not in signature:
                    return data[:at], [value], signature
        lines: list[bytes | None] = data.split(b"\r\n")  # type: ignore[assignment]  # None is put into it below
        if len(lines) != self._line_count:
            return None
        line = lines[0] or b""
        lines[0] = None
        if self._pieces:
            matched = self._match_query(line)
            if matched is None:
                return None
            line, values, signature = matched
        else:
            dated, signed = lines[self._time_line] or b"", lines[self._signature_line] or b""
            lines[self._time_line] = lines[self._signature_line] = None
            if (
                len(dated) != self._time_end
                or not dated.startswith(self._time_start)
                or len(signed) != self._signature_end
                or not signed.startswith(self._signature_start)
            ):
                return None
            values = [dated[len(self._time_start) :]]
            signature = signed[len(self._signature_start) :]
        for at, prefix, pattern in self._varying:
            varied = lines[at]
            lines[at] = None
            if varied is None or not varied.startswith(prefix) or not pattern.fullmatch(varied, len(prefix)):
                return None
            values.append(varied[len(prefix) :])
        return (line, values, signature) if lines == self._lines else None

    def _match_query(self, line: bytes) -> TemplateMatch | None:
        """The values between the fixed pieces. A value that contains more than one parameter is no valid time and no
        valid signature, so it is not looked for."""
        path, _, query = line.partition(b"?")
        found, at = list[bytes](), 0
        for piece in self._pieces:
            end = query.find(piece, at)
            if end < 0:
                return None
            found.append(query[at:end])
            at = end + len(piece)
        if at != len(query) or found[0]:
            return None
        *values, signature = [found[1 + at] for at in self._gap_indices]
        if self._is_percent_encoded:
            if b"+" in signature:
                return None  # in a query, a blank
            # The characters of base64 that a query escapes; any other escape leaves the signature wrong.
            signature = signature.replace(b"%2B", b"+").replace(b"%2F", b"/").replace(b"%3D", b"=")
        return path, values, signature


def _prefix(line: bytes) -> bytes:
    """A header's line up to its value."""
    name, colon, value = line.partition(b":")
    return line[: len(name) + len(colon) + len(value) - len(value.lstrip(b" \t"))]
