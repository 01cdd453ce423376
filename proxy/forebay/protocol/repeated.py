"""Requests that repeat: what one client signs again and again, with another target, time and signature each time.

A client's requests differ in a few places only. `SignedForm` is made from one request that forebay.protocol.sigv4 has
verified; after that it verifies others of the same form, at the cost of the hashes alone. It is the same proof: the
same canonical request, the same key, the same bounds of time. What is left out is deriving again what is the same.

    GET\\n/bucket/key\\n\\n          the start            given: method, canonical path, canonical query
    host:...\\n                     fixed                as the first request had it
    range:bytes=0-99\\n             a varying header     given
    x-amz-date:20261120T...Z\\n     the time             given
    \\nhost;range;...\\npayload     fixed

The caller guarantees that a request has the same headers as the first one, value by value, but for those that vary, and
that a varying value is canonical as it stands (no blanks around it, none doubled).

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from collections.abc import Collection, Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple

from forebay.protocol.amzdate import seconds_of
from forebay.protocol.canonical import canonical_path, canonical_query, canonical_value
from forebay.protocol.claims import Claim
from forebay.protocol.headers import Headers
from forebay.protocol.proving import MAX_SKEW
from forebay.protocol.secretkey import ALGORITHM, Sha256, keyed
from forebay.protocol.sigv4 import SignedV4
from forebay.protocol.target import Target

_DATE: Final = "x-amz-date"
_MOMENTS: Final = 1024
"""Timestamps that are remembered. A client's are those of the last seconds."""


class _Moment(NamedTuple):
    """What is the same for all signatures of one second."""

    seconds: int
    inner: Sha256
    """The inner hash of the signature's HMAC, fed with all that comes before the request's own hash."""


class SignedForm:
    """See the module. `varying`: lower-case names of headers whose values differ from request to request."""

    __slots__ = ("_day", "_fixed", "_inner", "_moments", "_outer", "_scope", "_slots")

    def __init__(self, claim: Claim, signed: SignedV4, headers: Headers, varying: Collection[str]) -> None:
        """Of the request with these headers. ValueError if its time is not in a signed x-amz-date."""
        if claim.form != "header" or _DATE not in claim.signed_headers:
            raise ValueError("not of a form that repeats")
        fixed, slots = [""], []
        for name in claim.signed_headers:
            fixed[-1] += f"{name}:"
            if name == _DATE or name in varying:
                slots.append(name)
                fixed.append("")
            else:
                fixed[-1] += canonical_value(headers.getall(name))
            fixed[-1] += "\n"
        fixed[-1] += f"\n{';'.join(claim.signed_headers)}\n{claim.payload}"
        self._fixed = [text.encode("ascii") for text in fixed]
        self._slots = tuple(None if name == _DATE else name for name in slots)
        self._day = claim.scope.date
        self._scope = claim.scope.text
        self._inner, self._outer = keyed(signed.signing_key)
        self._moments: dict[bytes, _Moment] = {}

    def __len__(self) -> int:
        """How many seconds are remembered."""
        return len(self._moments)

    @property
    def varying(self) -> tuple[str, ...]:
        """The signed headers that vary, in the order in which `holds` wants their values."""
        return tuple(name for name in self._slots if name is not None)

    def holds(self, start: bytes, timestamp: bytes, varying: Sequence[bytes], signature: bytes, now: float) -> bool:
        """Whether the signature is right, and good at `now` (seconds since the epoch). `start`: see `start_of`."""
        moment = self._moments.get(timestamp) or self._moment(timestamp)
        if moment is None or not -MAX_SKEW <= now - moment[0] <= MAX_SKEW:
            return False
        fixed = self._fixed
        if len(fixed) == 2:
            request = b"".join((start, fixed[0], timestamp, fixed[1]))
        else:
            request = start + self._filled(timestamp, varying)
        inner, outer = moment[1].copy(), self._outer.copy()
        inner.update(sha256(request).hexdigest().encode())
        outer.update(inner.digest())
        return compare_digest(outer.hexdigest().encode(), signature)

    def _filled(self, timestamp: bytes, varying: Sequence[bytes]) -> bytes:
        values = iter(varying)
        pieces = [self._fixed[0]]
        for slot, text in zip(self._slots, self._fixed[1:], strict=True):
            pieces += (timestamp if slot is None else next(values), text)
        return b"".join(pieces)

    def _moment(self, timestamp: bytes) -> _Moment | None:
        """None: it is no time, or not of the day that the key was derived for."""
        try:
            text = timestamp.decode("ascii")
            seconds = seconds_of(text)
        except ValueError:
            return None
        if text[:8] != self._day:
            return None
        if len(self._moments) >= _MOMENTS:
            self._moments.clear()
        inner = self._inner.copy()
        inner.update(f"{ALGORITHM}\n{text}\n{self._scope}\n".encode())
        moment = self._moments[timestamp] = _Moment(seconds, inner)
        return moment


def start_of(method: str, target: Target) -> bytes:
    """The canonical request up to its headers, of a request that is signed in its header."""
    query = canonical_query(target.query) if target.query else ""
    return f"{method}\n{canonical_path(target.raw_path)}\n{query}\n".encode("utf-8", "surrogateescape")
