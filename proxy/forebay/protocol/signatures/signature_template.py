"""Requests that repeat: what one client signs again and again, with another target, time and signature each time.

A client's requests differ in a few places only. `SignedForm` is made from one request that its verifier has verified;
after that it verifies others of the same form, at the cost of the hashes alone. It is the same proof: the same text,
the same key, the same bounds of time. What is left out is deriving again what is the same.

    first     GET\\n/bucket/key\\n\\n          given            of the object's own
    (forebay.protocol.signatures.canonical_request)
    middle    host:...\\n                     fixed            as the first request had it
              range:bytes=0-99\\n             a gap            given
              x-amz-date:20261120T...Z\\n     a gap, the time  given
              \\nhost;range;...\\npayload     fixed
    last      /bucket/key, where versions 1 and 2 sign it    given

Where the gaps are is told by the verifier's own text, made once with a mark in place of each value that differs: so
there is no second way of putting it together. There are forms of all versions, in the header and in URLs, but for URLs
of OSS's version 2, which sign the time behind the object: no SDK makes those unless it is told to.

The caller guarantees that a request has the same headers and query as the first one, value by value, but for those that
differ, and that a value that differs is canonical as it stands (no blanks around it, none doubled, nothing escaped).

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import math
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from hmac import compare_digest
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from multidict import CIMultiDict

from forebay.protocol.dates import epoch_seconds, timestamp_of_date_header
from forebay.protocol.header_map import Headers
from forebay.protocol.oss import oss_canonical_request, oss_verification
from forebay.protocol.oss.oss_claim import ClaimOssV1, ClaimOssV2, ClaimOssV4, OssClaim
from forebay.protocol.signatures.canonical_request import SignedText
from forebay.protocol.signatures.credential_checks import MAX_SKEW
from forebay.protocol.signatures.signing_key import HashState, SecretKey, hmac_states, signing_key, string_to_sign
from forebay.protocol.signatures.sigv2 import signed_text as signed_text_v2
from forebay.protocol.signatures.sigv2_claim import LATEST_EXPIRES, ClaimV2
from forebay.protocol.signatures.sigv4 import before_query
from forebay.protocol.signatures.sigv4 import signed_text as signed_text_v4
from forebay.protocol.signatures.sigv4_claim import LONGEST_EXPIRES, ClaimV4
from forebay.protocol.target import Target

Repeating: TypeAlias = ClaimV4 | ClaimV2 | OssClaim
"""The claims that there are forms of."""

_MOMENTS: Final = 1024
"""Times of signing that are remembered. A client's are those of the last seconds; URLs have more of them."""
_MARK: Final = "~gap{}~"  # no coding of any version changes it
_MARKED: Final = re.compile(r"~gap([0-9]+)~")
# Visible ASCII with single blanks inside: canonical as it is.
_PLAIN: Final = re.compile(r"[!-~]+(?: [!-~]+)*")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")


class _Moment(NamedTuple):
    """What is the same for all signatures of one time."""

    earliest: float
    latest: float
    """Seconds since the epoch, between which they are good."""
    inner: HashState
    """The inner hash of the signature's HMAC, fed with all that comes before what is the request's own."""


class SignatureTemplate:
    """See the module. A request's values that differ come in one sequence: its time, which in a URL of version 4 are
    two values, then those of the headers that `varying` names, in that order, whether they are signed or not."""

    __slots__ = ("_begin", "_behind", "_claim", "_inner", "_moments", "_outer", "_scoped", "_times", "kind")

    kind: str
    """Two forms of one kind sign the same pieces of a request as the object's own."""

    def __init__(  # shows what it depends on
        self,
        claim: Repeating,
        method: str,
        target: Target,
        headers: Headers,
        secret: SecretKey,
        varying: Sequence[str] = (),
    ) -> None:
        """Of the request with this claim, which was proved. `varying`: names of headers that are there once.

        ValueError if its time is not among what is signed, or it can't be told what differs.
        """
        self.kind = f"{type(claim).__name__} {claim.form}"
        self._times = len(times_of(claim, headers))
        self._claim = claim
        middle = _text(claim, method, target, headers).middle
        marked = _text(*_marked(claim, method, target, headers, varying)).middle
        pieces = _MARKED.split(marked)
        self._begin, *fixed = [piece.encode("utf-8", "surrogateescape") for piece in pieces[::2]]
        self._behind = [(int(gap), piece) for gap, piece in zip(pieces[1::2], fixed, strict=True)]
        """Which of the values stand behind that, and what is fixed behind each."""
        if _MARKED.search(middle) or not set(range(self._times)) <= {gap for gap, _ in self._behind}:
            raise ValueError("not of a form that repeats")
        if isinstance(claim, ClaimOssV2) and claim.form == "query":
            raise ValueError("its time stands behind the object")
        self._scoped = isinstance(claim, ClaimV4 | ClaimOssV4)
        digest, key = _key(claim, secret)
        self._inner, self._outer = hmac_states(key, digest)
        self._moments: dict[bytes | tuple[bytes, ...], _Moment] = {}

    def __len__(self) -> int:
        """How many times are remembered."""
        return len(self._moments)

    def first_piece(self, method: str, target: Target) -> bytes | None:
        """What stands first in the text of a request for another target; there is no last. None where more is to be
        judged of a target than its signature (a query, what version 1 can't tell apart), or it is signed otherwise."""
        if target.query or self._claim.form == "query":
            return None
        match self._claim:
            case ClaimV4():
                first = before_query(method, target)
            case ClaimOssV4():
                first = oss_canonical_request.before_query(
                    method, oss_canonical_request.resource_of(target.bucket, target.key)
                )
            case _:
                return None
        return f"{first}\n".encode("utf-8", "surrogateescape")

    def verifies(self, first: bytes, last: bytes, values: Sequence[bytes], signature: bytes, now: float) -> bool:
        """Whether the signature is right, and good at `now` (seconds since the epoch). `first`, `last`: the text's."""
        time: bytes | tuple[bytes, ...] = values[0] if self._times == 1 else (values[0], values[1])
        moment = self._moments.get(time) or self._moment(time)
        if moment is None or not moment[0] <= now <= moment[1]:
            return False
        behind = self._behind
        if len(behind) == 1:
            text = b"".join((first, self._begin, values[behind[0][0]], behind[0][1], last))
        else:
            pieces = [first, self._begin]
            for gap, piece in behind:
                pieces += (values[gap], piece)
            pieces.append(last)
            text = b"".join(pieces)
        inner, outer = moment[2].copy(), self._outer.copy()
        if self._scoped:
            inner.update(sha256(text).hexdigest().encode())
            outer.update(inner.digest())
            return compare_digest(outer.hexdigest().encode(), signature)
        inner.update(text)
        outer.update(inner.digest())
        return compare_digest(b64encode(outer.digest()), signature)

    def _moment(self, time: bytes | tuple[bytes, ...]) -> _Moment | None:
        """None: it is no time, or not of the day that the key was derived for."""
        try:
            texts = [text.decode("ascii") for text in ((time,) if isinstance(time, bytes) else time)]
            if not all(_PLAIN.fullmatch(text) for text in texts):
                return None
            earliest, latest = _good(self._claim, texts)
        except ValueError:
            return None
        if len(self._moments) >= _MOMENTS:
            self._moments.clear()
        inner = self._inner.copy()
        match self._claim:
            case ClaimV4():
                inner.update(_without_hash(string_to_sign(texts[0], self._claim.scope, "")))
            case ClaimOssV4():
                inner.update(_without_hash(oss_canonical_request.string_to_sign(texts[0], self._claim.scope, "")))
            case _:
                pass
        moment = self._moments[time] = _Moment(earliest, latest, inner)
        return moment


def times_of(claim: Repeating, headers: Headers) -> tuple[str, ...]:
    """Where the time is: a header's name in lower case, or names of the query as they are spelt."""
    match claim:
        case ClaimV4():
            return ("x-amz-date",) if claim.form == "header" else ("X-Amz-Date", "X-Amz-Expires")
        case ClaimOssV4():
            return ("x-oss-date",) if claim.form == "header" else ("x-oss-date", "x-oss-expires")
        case ClaimOssV2():
            return ("date",) if claim.form == "header" else ("x-oss-expires",)
        case ClaimV2() | ClaimOssV1():
            if claim.form == "query":
                return ("Expires",)
            name = "x-amz-date" if isinstance(claim, ClaimV2) else "x-oss-date"
            return (name if name in headers else "date",)
        case _:
            assert_never(claim)


def _text(claim: Repeating, method: str, target: Target, headers: Headers) -> SignedText:
    match claim:
        case ClaimV4():
            return signed_text_v4(claim, method, target, headers)
        case ClaimV2():
            return signed_text_v2(claim, method, target, headers)
        case ClaimOssV1() | ClaimOssV2() | ClaimOssV4():
            return oss_verification.signed_text(claim, method, target, headers)
        case _:
            assert_never(claim)


def _marked(
    claim: Repeating, method: str, target: Target, headers: Headers, varying: Sequence[str]
) -> tuple[Repeating, str, Target, Headers]:
    """The request with a mark in place of each value that differs."""
    times = times_of(claim, headers)
    marks = {name: _MARK.format(number) for number, name in enumerate((*times, *varying))}
    if not isinstance(claim, ClaimV4 | ClaimOssV4) and claim.date:
        claim = claim._replace(date=marks[times[0]])
    if claim.form == "query":
        query = tuple((name, marks[name] if name in times else value) for name, value in target.query)
        target = replace(target, query=query)
        marks = {name: mark for name, mark in marks.items() if name not in times}
    return claim, method, target, CIMultiDict((name, marks.get(name.lower(), value)) for name, value in headers.items())


def _key(claim: Repeating, secret: SecretKey) -> tuple[Literal["sha1", "sha256"], bytes]:
    """The hash of the HMAC, and its key."""
    match claim:
        case ClaimV4():
            return "sha256", signing_key(secret.secret_key, claim.scope.date, claim.scope.region, claim.scope.service)
        case ClaimOssV4():
            return "sha256", oss_canonical_request.signing_key(secret.secret_key, claim.scope)
        case ClaimOssV2():
            return "sha256", secret.secret_key.encode("utf-8", "surrogateescape")
        case ClaimV2() | ClaimOssV1():
            return "sha1", secret.secret_key.encode("utf-8", "surrogateescape")
        case _:
            assert_never(claim)


def _good(claim: Repeating, texts: Sequence[str]) -> tuple[float, float]:
    """From when until when, both inclusive, a signature of that time is good; ValueError if it never is, or if that is
    for the verifier to say."""
    if isinstance(claim, ClaimV4 | ClaimOssV4):
        signed_at = epoch_seconds(texts[0])
        if texts[0][:8] != claim.scope.date:
            raise ValueError("not of the day of the key")
        if claim.form == "header":
            return signed_at - MAX_SKEW, signed_at + MAX_SKEW
        return signed_at - MAX_SKEW, signed_at + _number(texts[1], LONGEST_EXPIRES)
    if claim.form == "header":
        signed_at = epoch_seconds(timestamp_of_date_header(texts[0]))
        return signed_at - MAX_SKEW, signed_at + MAX_SKEW
    return -math.inf, _number(texts[0], LATEST_EXPIRES)


def _number(text: str, most: int) -> int:
    if not _NUMBER.fullmatch(text) or not 0 < int(text) <= most:
        raise ValueError("no number of seconds")
    return int(text)


def _without_hash(text: str) -> bytes:
    return text[: text.rindex("\n") + 1].encode()
