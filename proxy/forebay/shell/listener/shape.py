"""The shape of a client's heads: what its requests on a connection have in common, line by line.

    GET /bucket/key HTTP/1.1                          the request line        differs
    Host: 127.0.0.1:9000                              fixed                   the same bytes each time
    User-Agent: Boto3/1.40 ...                        fixed
    Range: bytes=0-65535                              varies                  by a pattern of its own
    X-Amz-Date: 20261120T120000Z                      the time                differs
    Authorization: AWS4-HMAC-SHA256 ..., Signature=   fixed up to the signature

A shape is made from a request that was read (fasthead) and authenticated in full. A head of the same shape is read by
comparing its lines with it: what is equal, byte for byte, means what it meant before, so that what was learnt from it
holds (there is one plain Host, no body, nothing that bears on framing; every header is as it was). Whatever differs in
another place is not of that shape, and read in full again. A shape proves nothing by itself: each head's signature is
verified, by forebay.protocol.repeated.
"""

import re
from typing import Final, Self, TypeAlias

from forebay.decisions.access import Principal
from forebay.decisions.freshness import asks_revalidation
from forebay.flights.permissions import Asker
from forebay.protocol.answers import asks_checksums
from forebay.protocol.claims import Claim, read_claim
from forebay.protocol.headers import Headers
from forebay.protocol.repeated import SignedForm
from forebay.protocol.signed import Signed, SignedV4
from forebay.protocol.target import Target
from forebay.story.gateway import Policy
from forebay.words.errors import S3Error

_DATE: Final = "x-amz-date"
_AUTHORIZATION: Final = "authorization"
_TIMESTAMP: Final = len("20261120T120000Z")
_SIGNATURE: Final = 64
# What clients write anew for each request. A value is visible ASCII with single blanks inside, so canonical as it is.
_ANY: Final = re.compile(rb"[!-~]+(?: [!-~]+)*")
_VARYING: Final = {
    "range": re.compile(rb"bytes=[0-9]{0,18}-[0-9]{0,18}"),
    "amz-sdk-invocation-id": _ANY,
    "amz-sdk-request": _ANY,
    "traceparent": _ANY,
    "tracestate": _ANY,
    "x-amzn-trace-id": _ANY,
}


Read: TypeAlias = tuple[bytes, bytes, bytes, list[bytes]]
"""What a head says beyond its shape: the request line, the timestamp, the signature, and the values of the headers that
vary, in the order of their lines. A plain tuple, as making one of a class of its own takes ten times as long."""


class Shape:
    """See the module. Good under one policy, for one principal."""

    __slots__ = (
        "_authorization_at",
        "_authorization_end",
        "_authorization_start",
        "_count",
        "_date_at",
        "_date_end",
        "_date_start",
        "_lines",
        "_varying",
        "asker",
        "form",
        "key",
        "policy",
        "principal",
        "range_at",
        "signed",
        "signed_at",
    )

    _lines: list[bytes | None]
    """The fixed ones; None in the place of the others."""
    _count: int
    _date_at: int
    _date_start: bytes
    _date_end: int
    _authorization_at: int
    _authorization_start: bytes
    _authorization_end: int
    _varying: list[tuple[int, bytes, re.Pattern[bytes]]]
    """Where, what the line begins with, and what its value may be."""
    policy: Policy
    principal: Principal
    asker: Asker | None
    signed: SignedV4
    """Of the request that it was made from. Key, scope and form are those of each that follows."""
    form: SignedForm
    key: bytes
    """What is ready for a request line is ready under this and the line: it says who asks, for which Host, and whether
    for checksums."""
    range_at: int
    """Where among the values that vary the Range is; -1: there is none."""
    signed_at: tuple[int, ...]
    """Where the values are that the signature covers, in the order in which it does."""

    @classmethod
    def of(
        cls,
        data: bytes,
        target: Target,
        headers: Headers,
        signed: Signed | None,
        policy: Policy,
        principal: Principal,
    ) -> Self | None:
        """The shape of a request that was read from `data` and authenticated, or None if it has none."""
        lines: list[bytes | None] = [*data.split(b"\r\n")]
        names = [(line or b"").partition(b":")[0].decode("ascii").lower() for line in lines]
        if not isinstance(signed, SignedV4) or names.count(_DATE) != 1 or names.count(_AUTHORIZATION) != 1:
            return None
        if "If-Match" in headers or asks_revalidation(headers):
            return None
        varying = [at for at, name in enumerate(names) if name in _VARYING]
        if len({names[at] for at in varying}) < len(varying):
            return None
        shape = cls()
        claim = read_claim(target, headers)
        try:
            if not isinstance(claim, Claim):
                return None
            shape.form = SignedForm(claim, signed, headers, _VARYING)
        except (ValueError, S3Error):
            return None
        shape.signed = signed
        shape.policy, shape.principal, shape.asker = policy, principal, policy.keyring.askers.get(principal.id)
        shape._date_at, shape._authorization_at = names.index(_DATE), names.index(_AUTHORIZATION)
        shape._date_start = (lines[shape._date_at] or b"")[:-_TIMESTAMP]
        shape._authorization_start = (lines[shape._authorization_at] or b"")[:-_SIGNATURE]
        shape._date_end = len(shape._date_start) + _TIMESTAMP
        shape._authorization_end = len(shape._authorization_start) + _SIGNATURE
        shape._varying = [(at, _prefix(lines[at] or b""), _VARYING[names[at]]) for at in varying]
        places = {names[at]: place for place, at in enumerate(varying)}
        shape.range_at = places.get("range", -1)
        shape.signed_at = tuple(places[name] for name in shape.form.varying)
        shape.key = b"\0".join(
            (principal.id.encode(), headers["Host"].encode(), b"checksums" if asks_checksums(headers) else b"", b"")
        )
        for at in (0, shape._date_at, shape._authorization_at, *varying):
            lines[at] = None
        shape._lines, shape._count = lines, len(lines)
        return shape if shape.read(data) is not None else None

    def read(self, data: bytes) -> Read | None:
        """What the head `data` says, if it is of this shape."""
        lines: list[bytes | None] = data.split(b"\r\n")  # type: ignore[assignment]  # None is put into it below
        if len(lines) != self._count:
            return None
        line, dated, authorization = lines[0], lines[self._date_at], lines[self._authorization_at]
        lines[0] = lines[self._date_at] = lines[self._authorization_at] = None
        values: list[bytes] = []
        for at, prefix, pattern in self._varying:
            varied = lines[at]
            lines[at] = None
            if varied is None or not varied.startswith(prefix) or not pattern.fullmatch(varied, len(prefix)):
                return None
            values.append(varied[len(prefix) :])
        if (
            lines != self._lines
            or line is None
            or dated is None
            or len(dated) != self._date_end
            or not dated.startswith(self._date_start)
            or authorization is None
            or len(authorization) != self._authorization_end
            or not authorization.startswith(self._authorization_start)
        ):
            return None
        return line, dated[-_TIMESTAMP:], authorization[-_SIGNATURE:], values


def _prefix(line: bytes) -> bytes:
    """A header's line up to its value."""
    name, colon, value = line.partition(b":")
    return line[: len(name) + len(colon) + len(value) - len(value.lstrip(b" \t"))]
