"""The shape of a client's heads: what its requests have in common, line by line.

    GET /bucket/key HTTP/1.1                          the request line        differs
    Host: 127.0.0.1:9000                              fixed                   the same bytes each time
    User-Agent: Boto3/1.40 ...                        fixed
    Range: bytes=0-65535                              varies                  by a pattern of its own
    X-Amz-Date: 20261120T120000Z                      the time                differs
    Authorization: AWS4-HMAC-SHA256 ..., Signature=   fixed up to the signature

    GET /bucket/key?X-Amz-Credential=...&X-Amz-Date=20261120T120000Z&X-Amz-Expires=600&...&X-Amz-Signature=... HTTP/1.1
        differs    |fixed               |differs         |fixed         |diff|fixed                |differs

A shape is made from a request that was read (fasthead) and authenticated in full. A head of the same shape is read by
comparing its lines with it, and the query of a signed URL piece by piece: what is equal, byte for byte, means what it
meant before, so that what was learnt from it holds (there is one plain Host, no body, nothing that bears on framing;
every header is as it was). Whatever differs in another place is not of that shape, and read in full again. A shape
proves nothing by itself: each head's signature is verified, by forebay.protocol.signatures.signature_template.
"""

import re
from collections.abc import Sequence
from typing import Final, Self, TypeAlias

from forebay.core.errors import S3Error
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.access import Principal
from forebay.policy.freshness import asks_revalidation
from forebay.protocol.header_map import Headers
from forebay.protocol.oss.oss_claim import ClaimOssV4
from forebay.protocol.response_headers import asks_checksums
from forebay.protocol.signatures.signature_template import Repeating, SignedForm, times_of
from forebay.protocol.signatures.sigv4_claim import Claim, read_claim
from forebay.protocol.signatures.verified import Signed
from forebay.protocol.target import Target
from forebay.request.admission import Admission, GatewayPolicy

CONDITIONS: Final = ("if-match", "if-modified-since", "if-none-match", "if-unmodified-since")
# What clients write anew for each request. A value is visible ASCII with single blanks inside, so canonical as it is.
_ANY: Final = re.compile(rb"[!-~]+(?: [!-~]+)*")
_VARYING: Final = {
    "range": re.compile(rb"bytes=[0-9]{0,18}-[0-9]{0,18}"),
    **dict.fromkeys(CONDITIONS, _ANY),
    "amz-sdk-invocation-id": _ANY,
    "amz-sdk-request": _ANY,
    "date": _ANY,
    "traceparent": _ANY,
    "tracestate": _ANY,
    "x-amzn-trace-id": _ANY,
}
_VERSION: Final = b" HTTP/1.1"

TemplateMatch: TypeAlias = tuple[bytes, list[bytes], bytes]
"""What a head says beyond its shape: the request line, without the query of a signed URL; the values that differ: its
time, and those of the headers that vary, in the order of their lines; the signature. A plain tuple, as making one of a
class of its own takes ten times as long."""


class HeadTemplate:
    """See the module. Good under one policy, for one principal."""

    __slots__ = (
        "_gap_indices",
        "_is_percent_encoded",
        "_line_count",
        "_lines",
        "_pieces",
        "_signature_end",
        "_signature_line",
        "_signature_start",
        "_time_end",
        "_time_line",
        "_time_start",
        "_varying",
        "conditions",
        "identity",
        "key",
        "policy",
        "principal",
        "range_index",
        "signature",
        "signed",
    )

    _lines: list[bytes | None]
    """The fixed ones; None in the place of the others."""
    _line_count: int
    _pieces: list[bytes]
    """Of a signed URL's query and what follows it, those that are fixed; empty where the header is signed."""
    _gap_indices: tuple[int, ...]
    """Where among what stands between these the time is, and last the signature."""
    _is_percent_encoded: bool
    """Whether the signature may be percent-encoded there."""
    _time_line: int
    _time_start: bytes
    _time_end: int
    _signature_line: int
    _signature_start: bytes
    _signature_end: int
    _varying: list[tuple[int, bytes, re.Pattern[bytes]]]
    """Where, what the line begins with, and what its value may be."""
    policy: GatewayPolicy
    principal: Principal
    identity: OriginIdentity | None
    signed: Signed
    """Of the request that it was made from. Key, scope and form are those of each that follows."""
    signature: SignedForm
    key: bytes
    """What is ready for a request line is ready under this and the line: it says who asks and how it is signed, for
    which Host, with what else in the query, and whatever else bears on the answer."""
    range_index: int
    """Where among the values that differ the Range is; -1: there is none."""
    conditions: tuple[tuple[str, int], ...]
    """The conditions, and where their values are."""

    @classmethod
    def build(cls, data: bytes, target: Target, headers: Headers, admission: Admission) -> Self | None:
        """The template of an admitted request with the head `data`, or None if it has none. `target` and `headers` as
        they came."""
        signed, policy, principal = admission.signed, admission.policy, admission.principal
        oss_request, method = admission.oss_request, admission.method
        claim = read_claim(target, headers)
        if signed is None or not isinstance(claim, Repeating) or asks_revalidation(admission.headers):
            return None
        lines: list[bytes | None] = [*data.split(b"\r\n")]
        names = [(line or b"").partition(b":")[0].decode("ascii").lower() for line in lines]
        times = times_of(claim, headers)
        varying = [at for at, name in enumerate(names) if at and name in _VARYING and name not in times]
        named = [names[at] for at in varying]
        if len(set(named)) < len(named):
            return None
        template = cls()
        secret = policy.keyring.secrets[claim.access_key]
        try:
            template.signature = SignedForm(claim, method, target, headers, secret, named)
            gaps = (
                template._locate_in_query(data, claim, times)
                if claim.form == "query"
                else template._locate_in_lines(lines, names, claim, times[0], headers)
            )
        except (ValueError, S3Error):
            return None
        template.signed = signed
        template.policy, template.principal, template.identity = (
            policy,
            principal,
            policy.keyring.origin_identities.get(principal.id),
        )
        template._varying = [(at, _prefix(lines[at] or b""), _VARYING[names[at]]) for at in varying]
        places = {name: len(times) + place for place, name in enumerate(named)}
        template.range_index = places.get("range", -1)
        template.conditions = tuple((name, places[name]) for name in CONDITIONS if name in places)
        told = [
            principal.id,
            headers["Host"],
            template.signature.kind,
            "checksums" if asks_checksums(admission.headers) else "",
        ]
        told.append("ignores ranges" if oss_request is not None and oss_request.ignores_ranges else "")
        template.key = b"\0".join((*(text.encode() for text in told), *template._pieces, b""))
        for at in (0, *gaps, *varying):
            lines[at] = None
        template._lines, template._line_count = lines, len(lines)
        return template if template.match(data) is not None else None

    def _locate_in_lines(
        self, lines: Sequence[bytes | None], names: Sequence[str], claim: Repeating, time: str, headers: Headers
    ) -> tuple[int, ...]:
        """Where the time and the signature are. ValueError if they are not to be found."""
        self._time_line, self._signature_line, self._pieces = names.index(time), names.index("authorization"), []
        dated, signed = lines[self._time_line] or b"", lines[self._signature_line] or b""
        value, signature = headers[time].encode(), claim.signature.encode()
        if names.count(time) > 1 or not (dated.endswith(value) and signed.endswith(signature) and value):
            raise ValueError("not in the place where they are looked for")
        self._time_start, self._time_end = dated[: -len(value)], len(dated)
        self._signature_start, self._signature_end = signed[: -len(signature)], len(signed)
        return self._time_line, self._signature_line

    def _locate_in_query(self, data: bytes, claim: Repeating, times: Sequence[str]) -> tuple[int, ...]:
        """The pieces of the query that are fixed. ValueError if it does not have each of the others once."""
        signature = {Claim: "X-Amz-Signature", ClaimOssV4: "x-oss-signature"}.get(type(claim), "Signature")
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
            raise ValueError("not what a signed URL has")
        self._pieces, self._gap_indices = fixed, tuple(found.index(name) for name in wanted)
        self._is_percent_encoded = not isinstance(claim, Claim | ClaimOssV4)
        return ()

    def verify(self, matched: TemplateMatch, method: str, target: Target, now: float) -> bytes | None:
        """Verify the signature of a request that matches: the start of its string to sign, or None for a request that
        is to be verified in full.

        This takes as long whatever is cached: a client that cannot sign must not learn from the time it takes what is.
        """
        start = self.signature.first_of(method, target)
        is_valid = self.signature.holds(start or b"", b"", matched[1], matched[2], now)
        return start if is_valid else None

    def match(self, data: bytes) -> TemplateMatch | None:
        """What the head `data` says, if it is of this shape."""
        lines: list[bytes | None] = data.split(b"\r\n")  # type: ignore[assignment]  # None is put into it below
        if len(lines) != self._line_count:
            return None
        line = lines[0] or b""
        lines[0] = None
        if self._pieces:
            asked = self._match_query(line)
            if asked is None:
                return None
            line, values, signature = asked
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
        """What stands between the fixed pieces. Values with more than one pair in them make no time and no signature,
        so they need not be looked for."""
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
                return None  # a blank, in a query
            # What base64 has that must not stand there as it is; any other escape leaves it wrong.
            signature = signature.replace(b"%2B", b"+").replace(b"%2F", b"/").replace(b"%3D", b"=")
        return path, values, signature


def _prefix(line: bytes) -> bytes:
    """A header's line up to its value."""
    name, colon, value = line.partition(b":")
    return line[: len(name) + len(colon) + len(value) - len(value.lstrip(b" \t"))]
