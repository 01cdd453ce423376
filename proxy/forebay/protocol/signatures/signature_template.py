"""Signature templates: fast verification of requests that repeat a verified request of the same client.

The requests of a client differ in few values. A `SignatureTemplate` is made from one request that its verifier has
verified. It verifies further requests of the same form, at the cost of the hashes alone: with the same text, the same
key and the same bounds of time as the verifier, but without deriving again what these requests share.

    first     GET\\n/bucket/key\\n\\n          argument         the object's (canonical_request.SignedText)
    middle    host:...\\n                     fixed            from the first request
              range:bytes=0-99\\n             gap              argument
              x-amz-date:20261120T...Z\\n     gap, the time    argument
              \\nhost;range;...\\npayload     fixed, or a gap with the value of its header
    last      /bucket/key                   argument         only in versions 1 and 2

The positions of the gaps come from the verifier's own text, made once with a mark in place of each value that differs:
so the text is built in only one way. There are templates for all versions, in the header and in URLs, except URLs
of OSS's version 2, which sign the time after the object: SDKs make those only if configured to.

The caller guarantees that a request has the same headers and query as the first one, value by value, except those that
differ; and that a value that differs is canonical already (no blanks around it, none doubled, no escapes).

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import math
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from multidict import CIMultiDict

from forebay.protocol.dates import epoch_seconds, timestamp_of_date_header
from forebay.protocol.header_map import Headers
from forebay.protocol.signatures import oss_canonical_request, oss_verification
from forebay.protocol.signatures.canonical_request import SignedText
from forebay.protocol.signatures.credential_checks import MAX_SKEW
from forebay.protocol.signatures.oss_claim import ClaimOssV1, ClaimOssV2, ClaimOssV4, OssClaim
from forebay.protocol.signatures.signing_key import HashState, SecretKey, hmac_states, signing_key, string_to_sign
from forebay.protocol.signatures.sigv2 import signed_text as signed_text_v2
from forebay.protocol.signatures.sigv2_claim import LATEST_EXPIRES, ClaimV2
from forebay.protocol.signatures.sigv4 import before_query
from forebay.protocol.signatures.sigv4 import signed_text as signed_text_v4
from forebay.protocol.signatures.sigv4_claim import LONGEST_EXPIRES, ClaimV4
from forebay.protocol.target import Target

TemplateClaim: TypeAlias = ClaimV4 | ClaimV2 | OssClaim
"""The claims that a template can be made from."""

_MAX_TIMES: Final = 1024
"""Bound of the cached times of signing. Requests were signed in the last seconds; presigned URLs have more times."""
_MARK: Final = "~gap{}~"  # no version encodes any of its characters
_MARKED: Final = re.compile(r"~gap([0-9]+)~")
# Visible ASCII with single blanks inside: equal to its canonical form.
_PLAIN: Final = re.compile(r"[!-~]+(?: [!-~]+)*")
_EMPTY_HASH: Final = sha256()
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_PAYLOAD: Final = "x-amz-content-sha256"
"""The header that version 4 signs twice: among the headers, and as the payload."""


class _SigningTime(NamedTuple):
    """The state that all signatures of one time of signing share."""

    earliest: float
    latest: float
    """`earliest` and `latest`: the bounds of their validity, inclusive, in seconds since the epoch."""
    inner: HashState
    """The inner hash of the signature's HMAC, fed with the text before the request's own."""


class SignatureTemplate:
    """Verifies the signatures of requests that differ from a verified one only in target, time and some headers.

    The values that fill the gaps are one sequence: the time (two values in a URL of version 4), then the values of the
    headers in `varying`, in that order, whether they are signed or not.
    """

    __slots__ = (
        "_begin",
        "_claim",
        "_filling",
        "_gaps",
        "_inner",
        "_outer",
        "_pieces",
        "_scoped",
        "_signing_times",
        "_times",
        "kind",
    )

    kind: str
    """Templates of one kind have the same pieces of the text as first and last."""

    def __init__(  # the arguments of a verifier, and `varying`
        self,
        claim: TemplateClaim,
        method: str,
        target: Target,
        headers: Headers,
        secret: SecretKey,
        varying: Sequence[str] = (),
    ) -> None:
        """Makes the template of a verified request. `varying`: names of headers that it has exactly once.

        Raises ValueError if the time is not signed, or the request contains a mark, so that its gaps are ambiguous.
        """
        self.kind = f"{type(claim).__name__} {claim.form}"
        self._times = len(times_of(claim, headers))
        self._claim = claim
        middle = _signed_text(claim, method, target, headers).middle
        marked = _signed_text(*_mark_gaps(claim, method, target, headers, varying)).middle
        pieces = _MARKED.split(marked)
        self._begin, *fixed = [piece.encode("utf-8", "surrogateescape") for piece in pieces[::2]]
        self._gaps = [(int(gap), piece) for gap, piece in zip(pieces[1::2], fixed, strict=True)]
        """The index of the value in each gap, and the fixed text after it."""
        self._pieces = [b"", self._begin, *[each for _, piece in self._gaps for each in (b"", piece)], b""]
        """The text, with nothing at its ends and in its gaps."""
        if _MARKED.search(middle) or not set(range(self._times)) <= {gap for gap, _ in self._gaps}:
            raise ValueError("not of a form that repeats")
        self._filling = itemgetter(*[gap for gap, _ in self._gaps])
        """Returns the values of the gaps in their order, a tuple where there are several."""
        if isinstance(claim, ClaimOssV2) and claim.form == "query":
            raise ValueError("its time stands behind the object")
        self._scoped = isinstance(claim, ClaimV4 | ClaimOssV4)
        digest, key = _hmac_key(claim, secret)
        self._inner, self._outer = hmac_states(key, digest)
        self._signing_times: dict[bytes | tuple[bytes, ...], _SigningTime] = {}

    def __len__(self) -> int:
        """The number of cached times of signing."""
        return len(self._signing_times)

    def first_piece(self, method: str, target: Target) -> bytes | None:
        """Returns the first piece of the text of a request for another target; the last piece is empty.

        None if the target needs more checks than its signature (it has a query; version 1's text is ambiguous), or if
        the version signs the target elsewhere in the text, as URLs do.
        """
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
        """Whether the signature is correct, and valid at `now` (seconds since the epoch).

        `first`, `last`: those pieces of the request's text. `values`: the values of the gaps.
        """
        time: bytes | tuple[bytes, ...] = values[0] if self._times == 1 else (values[0], values[1])
        signing_time = self._signing_times.get(time) or self._add_signing_time(time)
        if signing_time is None or not signing_time[0] <= now <= signing_time[1]:
            return False
        gaps = self._gaps
        if len(gaps) == 1:
            text = b"".join((first, self._begin, values[gaps[0][0]], gaps[0][1], last))
        else:
            pieces = self._pieces.copy()
            pieces[2:-1:2] = self._filling(values)
            pieces[0], pieces[-1] = first, last
            text = b"".join(pieces)
        inner, outer = signing_time[2].copy(), self._outer.copy()
        if self._scoped:
            hashed = _EMPTY_HASH.copy()  # takes less time than making one
            hashed.update(text)
            inner.update(hashed.hexdigest().encode())
            outer.update(inner.digest())
            return compare_digest(outer.hexdigest().encode(), signature)
        inner.update(text)
        outer.update(inner.digest())
        return compare_digest(b64encode(outer.digest()), signature)

    def _add_signing_time(self, time: bytes | tuple[bytes, ...]) -> _SigningTime | None:
        """Caches and returns the state of a time of signing; None if it is invalid, or not of the signing key's day."""
        try:
            texts = [text.decode("ascii") for text in ((time,) if isinstance(time, bytes) else time)]
            if not all(_PLAIN.fullmatch(text) for text in texts):
                return None
            earliest, latest = _validity(self._claim, texts)
        except ValueError:
            return None
        if len(self._signing_times) >= _MAX_TIMES:
            self._signing_times.clear()
        inner = self._inner.copy()
        match self._claim:
            case ClaimV4():
                inner.update(_without_hash(string_to_sign(texts[0], self._claim.scope, "")))
            case ClaimOssV4():
                inner.update(_without_hash(oss_canonical_request.string_to_sign(texts[0], self._claim.scope, "")))
            case _:
                pass
        signing_time = self._signing_times[time] = _SigningTime(earliest, latest, inner)
        return signing_time


def times_of(claim: TemplateClaim, headers: Headers) -> tuple[str, ...]:
    """Returns the names of the time's values: a header in lower case, or query parameters as they are spelt."""
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


def _signed_text(claim: TemplateClaim, method: str, target: Target, headers: Headers) -> SignedText:
    match claim:
        case ClaimV4():
            return signed_text_v4(claim, method, target, headers)
        case ClaimV2():
            return signed_text_v2(claim, method, target, headers)
        case ClaimOssV1() | ClaimOssV2() | ClaimOssV4():
            return oss_verification.signed_text(claim, method, target, headers)
        case _:
            assert_never(claim)


def _mark_gaps(
    claim: TemplateClaim, method: str, target: Target, headers: Headers, varying: Sequence[str]
) -> tuple[TemplateClaim, str, Target, Headers]:
    """Returns the request with a mark in place of each value that fills a gap."""
    times = times_of(claim, headers)
    marks = {name: _MARK.format(number) for number, name in enumerate((*times, *varying))}
    if not isinstance(claim, ClaimV4 | ClaimOssV4) and claim.date:
        claim = claim._replace(date=marks[times[0]])
    if isinstance(claim, ClaimV4) and _PAYLOAD in marks:
        claim = claim._replace(payload=marks[_PAYLOAD])
    if claim.form == "query":
        query = tuple((name, marks[name] if name in times else value) for name, value in target.query)
        target = target._replace(query=query)
        marks = {name: mark for name, mark in marks.items() if name not in times}
    return claim, method, target, CIMultiDict((name, marks.get(name.lower(), value)) for name, value in headers.items())


def _hmac_key(claim: TemplateClaim, secret: SecretKey) -> tuple[Literal["sha1", "sha256"], bytes]:
    """Returns the hash of the HMAC, and its key."""
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


def _validity(claim: TemplateClaim, texts: Sequence[str]) -> tuple[float, float]:
    """Returns the bounds, both inclusive, of the validity of a signature: seconds since the epoch.

    Raises ValueError if it is never valid, or only the verifier can decide.
    """
    if isinstance(claim, ClaimV4 | ClaimOssV4):
        signed_at = epoch_seconds(texts[0])
        if texts[0][:8] != claim.scope.date:
            raise ValueError("not of the day of the key")
        if claim.form == "header":
            return signed_at - MAX_SKEW, signed_at + MAX_SKEW
        return signed_at - MAX_SKEW, signed_at + _parse_seconds(texts[1], LONGEST_EXPIRES)
    if claim.form == "header":
        signed_at = epoch_seconds(timestamp_of_date_header(texts[0]))
        return signed_at - MAX_SKEW, signed_at + MAX_SKEW
    return -math.inf, _parse_seconds(texts[0], LATEST_EXPIRES)


def _parse_seconds(text: str, most: int) -> int:
    if not _NUMBER.fullmatch(text) or not 0 < int(text) <= most:
        raise ValueError("no number of seconds")
    return int(text)


def _without_hash(text: str) -> bytes:
    return text[: text.rindex("\n") + 1].encode()
