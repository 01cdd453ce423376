"""Claims: the access key, scope and signature in a request, parsed and not verified.

    Authorization: AWS4-HMAC-SHA256 Credential=<key>/<date>/<region>/<service>/aws4_request,
                   SignedHeaders=<name;name>, Signature=<hex>                               form "header"
    ?X-Amz-Algorithm=&X-Amz-Credential=&X-Amz-Date=&X-Amz-Expires=&X-Amz-SignedHeaders=&X-Amz-Signature=   "query"
    Signature Version 2, in both forms: forebay.protocol.signatures.sigv2_claim
    the signatures of OSS, versions 1, 2 and 4, in both forms: forebay.protocol.signatures.oss_claim

Verification of Version 4 is in forebay.protocol.signatures.sigv4.

- A request has no claim (AnonymousClaim) or one; a request that is signed in two ways, of any dialects, is refused.
- A request with part of a signature, or with an unknown one, is refused; it is never anonymous.
- A repeated Authorization, X-Amz-Signature or x-amz-date is refused.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from forebay.core.errors import S3Error
from forebay.protocol.dates import epoch_seconds, timestamp_of_date_header
from forebay.protocol.header_map import Headers, single
from forebay.protocol.signatures.dialect_detection import MARK_V1 as _OSS_V1_MARK
from forebay.protocol.signatures.dialect_detection import MARKS as _OSS_MARKS
from forebay.protocol.signatures.dialect_detection import SCHEMES as _OSS_SCHEMES
from forebay.protocol.signatures.oss_claim import OssClaim, read_header_oss, read_query_oss
from forebay.protocol.signatures.signing_key import ALGORITHM, TERMINATOR, Scope
from forebay.protocol.signatures.sigv2_claim import MARKS as _SIGV2_MARKS
from forebay.protocol.signatures.sigv2_claim import SCHEME as _SIGV2_SCHEME
from forebay.protocol.signatures.sigv2_claim import ClaimV2, read_header_v2, read_query_v2
from forebay.protocol.target import Target

Form: TypeAlias = Literal["header", "query"]

UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
STREAMING: Final = (
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
)
"""The values of x-amz-content-sha256 that announce aws-chunks."""
SIGV4A_STREAMING: Final = (
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER",
)
"""The same for Version 4A, which is not implemented."""
LONGEST_EXPIRES: Final = 604_800  # seven days, S3's own bound

_SIGV4A: Final = "AWS4-ECDSA-P256-SHA256"
_LONGEST_REGION: Final = 64  # far longer than any region's name; it bounds the cache of derived keys
_HEADER_CODE: Final = "AuthorizationHeaderMalformed"
_QUERY_CODE: Final = "AuthorizationQueryParametersError"

_REQUIRED: Final = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
)
_READ: Final = frozenset((*_REQUIRED, "X-Amz-Security-Token", "X-Amz-Content-Sha256"))
_V4, _V2, _OSS_V1, _OSS, _SIGNATURE = 1, 2, 4, 8, 16
# The query names that identify a way of signing. `Signature` belongs to one of two, depending on the other names.
_MARKS: Final = {
    **dict.fromkeys(("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"), _V4),
    **dict.fromkeys(_SIGV2_MARKS, _V2),
    **dict.fromkeys(_OSS_MARKS, _OSS),
    _OSS_V1_MARK: _OSS_V1,
    "Signature": _SIGNATURE,
}
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_AUTHORIZATION_FIELDS: Final = frozenset(("Credential", "SignedHeaders", "Signature"))


class ClaimV4(NamedTuple):
    """The claim of a request. The repr omits signature and token: a presigned URL's signature is a credential."""

    access_key: str
    scope: Scope
    signed_headers: tuple[str, ...]
    """Lower-case, sorted, each once."""
    signature: str
    timestamp: str
    """YYYYMMDDTHHMMSSZ; a valid date."""
    expires: int | None
    """Validity of a presigned URL, in seconds from the timestamp; None in the header form."""
    form: Form
    security_token: str | None
    payload: str
    """The claimed value of x-amz-content-sha256, which forebay.protocol.body.payload parses."""

    def __repr__(self) -> str:
        return f"Claim({self.access_key!r}, {self.scope.text!r}, {self.timestamp}, form={self.form!r})"


@dataclass(frozen=True, slots=True)
class AnonymousClaim:
    """The request is not signed."""


def read_claim(target: Target, headers: Headers) -> ClaimV4 | ClaimV2 | OssClaim | AnonymousClaim:
    """Parses the claim of a request, of any dialect and version.

    Raises S3Error: AuthorizationHeaderMalformed, AuthorizationQueryParametersError, InvalidArgument (two ways of
    signing, an unknown scheme, errors of OSS), InvalidRequest, AccessDenied (no date), NotImplemented (SigV4A).
    """
    authorizations = headers.getall("Authorization", ())
    marks = 0
    for name, _ in target.query:
        marks |= _MARKS.get(name, 0)
    if marks & _SIGNATURE:
        marks = marks - _SIGNATURE if marks & _OSS_V1 else (marks - _SIGNATURE) | _V2
    if len(authorizations) + marks.bit_count() > 1:
        raise S3Error(
            "InvalidArgument",
            "Only one way of signing is allowed: the Authorization header or the query, and once.",
            ArgumentName="Authorization",
        )
    if authorizations:
        scheme, _, rest = authorizations[0].strip().partition(" ")
        if scheme == ALGORITHM:
            return _read_header(rest, headers)
        if scheme in _OSS_SCHEMES:
            return read_header_oss(scheme, rest, target, headers)
        if scheme == _SIGV2_SCHEME:
            return read_header_v2(rest, headers)
        raise _refused_scheme(scheme)
    if marks == _V4:
        return _read_query(target, headers)
    if marks == _V2:
        return read_query_v2(target, headers)
    if marks:
        return read_query_oss(target, headers)
    return AnonymousClaim()


def _read_header(rest: str, headers: Headers) -> ClaimV4:
    found: dict[str, str] = {}
    for field in rest.split(","):
        name, _, value = field.partition("=")
        name = name.strip()
        if name not in _AUTHORIZATION_FIELDS or name in found:
            raise S3Error(_HEADER_CODE, "Credential, SignedHeaders and Signature must each stand there once.")
        found[name] = value.strip()
    if len(found) != 3:
        raise S3Error(_HEADER_CODE, "Credential, SignedHeaders and Signature must each stand there once.")
    payload = single(headers, "x-amz-content-sha256")
    if payload is None:
        raise S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    _check_payload(payload)
    timestamp = _timestamp(headers)
    access_key, scope = parse_credential(found["Credential"], _HEADER_CODE)
    return ClaimV4(
        access_key,
        scope,
        _signed_headers(found["SignedHeaders"], _HEADER_CODE),
        found["Signature"],
        timestamp,
        None,
        "header",
        single(headers, "x-amz-security-token"),
        payload,
    )


def _read_query(target: Target, headers: Headers) -> ClaimV4:
    found: dict[str, str] = {}
    for name, value in target.query:
        if name in _READ:
            if name in found:
                raise S3Error(_QUERY_CODE, f"{name} must be given once.")
            found[name] = value
    algorithm = found.get("X-Amz-Algorithm")
    if algorithm == _SIGV4A:
        raise _refused_scheme(_SIGV4A)
    if any(not found.get(name) for name in _REQUIRED):
        raise S3Error(_QUERY_CODE, f"A presigned URL needs all of {', '.join(_REQUIRED)}.")
    if algorithm != ALGORITHM:
        raise S3Error(_QUERY_CODE, f"X-Amz-Algorithm must be {ALGORITHM}.")
    timestamp = found["X-Amz-Date"]
    try:
        epoch_seconds(timestamp)
    except ValueError:
        raise S3Error(_QUERY_CODE, "X-Amz-Date must be of the form YYYYMMDDTHHMMSSZ.") from None
    access_key, scope = parse_credential(found["X-Amz-Credential"], _QUERY_CODE)
    token = found.get("X-Amz-Security-Token")
    # Usually UNSIGNED-PAYLOAD; a presigner that knew the body may have added another value to the query.
    payload = found.get("X-Amz-Content-Sha256") or single(headers, "x-amz-content-sha256") or UNSIGNED_PAYLOAD
    return ClaimV4(
        access_key,
        scope,
        _signed_headers(found["X-Amz-SignedHeaders"], _QUERY_CODE),
        found["X-Amz-Signature"],
        timestamp,
        _expires(found["X-Amz-Expires"]),
        "query",
        token if token is not None else single(headers, "x-amz-security-token"),
        payload,
    )


@lru_cache(maxsize=64)  # reads repeat few values
def _check_payload(value: str) -> None:
    """Raises S3Error InvalidArgument unless S3 knows the value of x-amz-content-sha256, even without a body."""
    if value == UNSIGNED_PAYLOAD or value in STREAMING or value in SIGV4A_STREAMING or is_sha256(value):
        return
    forms = ", ".join((UNSIGNED_PAYLOAD, *STREAMING))
    message = f"x-amz-content-sha256 must be {forms}, or a valid sha256 value."
    raise S3Error("InvalidArgument", message, ArgumentName="x-amz-content-sha256", ArgumentValue=value)


def is_sha256(value: str) -> bool:
    """Whether `value` is a SHA-256 in hex, in upper or lower case."""
    return len(value) == 64 and _HEX.issuperset(value)


# Clients repeat few credentials and lists of header names.
@lru_cache(maxsize=1024)
def parse_credential(text: str, code: str) -> tuple[str, Scope]:
    """Parses a credential to access key and scope. Raises S3Error with `code`."""
    # From the right: an access key may contain a slash, the scope may not.
    parts = text.rsplit("/", 4)
    if len(parts) != 5 or not parts[0] or parts[4] != TERMINATOR:
        raise S3Error(code, f"The credential must be of the form key/YYYYMMDD/region/service/{TERMINATOR}.")
    access_key, date, region, service, _ = parts
    if len(region) > _LONGEST_REGION:
        raise S3Error(code, "The region is too long.")
    return access_key, Scope(date, region, service)


@lru_cache(maxsize=1024)
def _signed_headers(text: str, code: str) -> tuple[str, ...]:
    names = sorted(text.lower().split(";"))
    if not names[0] or len(set(names)) != len(names):
        raise S3Error(code, "SignedHeaders must name each header once, separated by semicolons.")
    return tuple(names)


def _timestamp(headers: Headers) -> str:
    try:
        timestamp = single(headers, "x-amz-date")
        if timestamp is not None:
            epoch_seconds(timestamp)
            return timestamp
        return timestamp_of_date_header(single(headers, "Date") or "")
    except (ValueError, S3Error):
        raise S3Error("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header") from None


def _expires(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) < 2**63):
        raise S3Error(_QUERY_CODE, "X-Amz-Expires should be a number")
    if text.startswith("-"):
        raise S3Error(_QUERY_CODE, "X-Amz-Expires must be non-negative")
    if int(digits) > LONGEST_EXPIRES:
        raise S3Error(_QUERY_CODE, f"X-Amz-Expires must be less than {LONGEST_EXPIRES} seconds")
    return int(digits)


def _refused_scheme(scheme: str) -> S3Error:
    if scheme == _SIGV4A:
        return S3Error("NotImplemented", "Signature Version 4A is not implemented; please sign with Version 4.")
    # Without the value, which may be a bearer token.
    return S3Error("InvalidArgument", "Unsupported Authorization type.", ArgumentName="Authorization")
