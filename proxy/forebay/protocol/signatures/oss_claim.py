"""The signature fields of an OSS request: its claim, which forebay.protocol.signatures.oss_verification verifies.

    version   Authorization                                                     signed URL
    1         OSS <key>:<base64>                                                OSSAccessKeyId, Expires, Signature
    2         OSS2 AccessKeyId:<key>,[AdditionalHeaders:<a;b>,]Signature:<...>  x-oss-signature-version=OSS2, ...
    4         OSS4-HMAC-SHA256 Credential=<key>/<date>/<region>/oss/aliyun_v4_request,
                [AdditionalHeaders=<a;b>,]Signature=<hex>                       x-oss-signature-version=OSS4-..., ...

- Fields come in any order, with blanks or without: oss2 and alibabacloud-oss-v2 differ in both.
- In a URL, versions 1 and 2 have the end of its validity (seconds since the epoch), version 4 the start and duration.
- A query name or an x-oss-* header that comes twice is refused: each is signed once.
- The security token of versions 1 and 2 has two names, with and without `x-oss-`; clients differ.

forebay.protocol.signatures.sigv4_claim, which calls this, ensures that a request is signed in one way only.

https://www.alibabacloud.com/help/en/oss/developer-reference/include-signatures-in-the-authorization-header
https://www.alibabacloud.com/help/en/oss/developer-reference/add-signatures-to-urls
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias

from forebay.core.errors import S3Error
from forebay.protocol.dates import epoch_seconds, timestamp_of_date_header
from forebay.protocol.header_map import Headers, single
from forebay.protocol.signatures.dialect_detection import MARK_V1, MARKS
from forebay.protocol.signatures.oss_canonical_request import TERMINATOR, OssScope
from forebay.protocol.target import Target

Form: TypeAlias = Literal["header", "query"]

LONGEST_EXPIRES: Final = 604_800
"""Seconds: seven days, OSS's own bound of a version 4 URL."""
QUERY_V1: Final = (MARK_V1, "Expires", "Signature")
"""The query names of a version 1 URL. Its token is a sub-resource as any other."""

_V2: Final = "OSS2"
_V4: Final = "OSS4-HMAC-SHA256"
_TOKENS: Final = ("x-oss-security-token", "security-token")
_REQUIRED_V2: Final = ("x-oss-access-key-id", "x-oss-expires", "x-oss-signature")
_REQUIRED_V4: Final = ("x-oss-credential", "x-oss-date", "x-oss-expires", "x-oss-signature")
SIGNATURE_QUERY: Final = frozenset(
    name.lower() for name in (*QUERY_V1, *_TOKENS, *_REQUIRED_V2, *_REQUIRED_V4, *MARKS, "x-oss-additional-headers")
)
"""The query names of any version's URL signature, in lower case."""
_LONGEST_MOMENT: Final = 10  # digits: until the year 2286
_LONGEST_REGION: Final = 64  # far above any real name; it keeps the cache of derived keys small


class ClaimOssV1(NamedTuple):
    """The claim of version 1. The repr hides signature and token: a signed URL's signature is a credential."""

    access_key: str
    signature: str
    date: str
    """The date line of the string to sign: in a URL `Expires`, else `x-oss-date` or `Date`."""
    moment: int
    """Seconds since the epoch: the end of a URL's validity, else the time of the signature."""
    form: Form
    security_token: str | None

    def __repr__(self) -> str:
        return f"ClaimOssV1({self.access_key!r}, {self.moment}, form={self.form!r})"


class ClaimOssV2(NamedTuple):
    """The claim of version 2: as ClaimOssV1, but the date line is always `Date`, never `x-oss-date`."""

    access_key: str
    signature: str
    date: str
    moment: int
    form: Form
    security_token: str | None
    additional: tuple[str, ...]
    """The names of signed headers beside those that are always signed. Lower-case, sorted, each once."""

    def __repr__(self) -> str:
        return f"ClaimOssV2({self.access_key!r}, {self.moment}, form={self.form!r})"


class ClaimOssV4(NamedTuple):
    """The claim of version 4: as ClaimOssV1."""

    access_key: str
    signature: str
    timestamp: str
    """YYYYMMDDTHHMMSSZ; a valid time."""
    expires: int | None
    """Seconds from the timestamp, of a URL; None in the header form."""
    form: Form
    security_token: str | None
    additional: tuple[str, ...]
    scope: OssScope

    def __repr__(self) -> str:
        return f"ClaimOssV4({self.access_key!r}, {self.scope.text!r}, {self.timestamp}, form={self.form!r})"


OssClaim: TypeAlias = ClaimOssV1 | ClaimOssV2 | ClaimOssV4


def read_header_oss(scheme: str, rest: str, target: Target, headers: Headers) -> OssClaim:
    """The claim of an Authorization header; `rest` follows the scheme (one of dialect_detection.SCHEMES).

    Raises S3Error InvalidArgument, InvalidRequest, AccessDenied (no date).
    """
    _check_unique(target, headers)
    token = _token({}, headers)
    if scheme == _V4:
        found = _fields(rest, "=", ("Credential", "AdditionalHeaders", "Signature"))
        access_key, scope = parse_credential(_field(found, "Credential"))
        timestamp = _timestamp(single(headers, "x-oss-date") or single(headers, "Date"))
        additional = parse_additional(found.get("AdditionalHeaders"))
        return ClaimOssV4(access_key, _field(found, "Signature"), timestamp, None, "header", token, additional, scope)
    if scheme == _V2:
        found = _fields(rest, ":", ("AccessKeyId", "AdditionalHeaders", "Signature"))
        date = single(headers, "Date")
        moment = epoch_seconds(_timestamp(date))
        additional = parse_additional(found.get("AdditionalHeaders"))
        access_key, signature = _field(found, "AccessKeyId"), _field(found, "Signature")
        return ClaimOssV2(access_key, signature, date or "", moment, "header", token, additional)
    access_key, _, signature = rest.strip(" \t").rpartition(":")
    if not access_key or not signature:
        _refuse("Authorization", "The Authorization header of Signature Version 1 is `OSS key:signature`.")
    date = single(headers, "x-oss-date") or single(headers, "Date")
    return ClaimOssV1(access_key, signature, date or "", epoch_seconds(_timestamp(date)), "header", token)


def read_query_oss(target: Target, headers: Headers) -> OssClaim:
    """The claim of a signed URL. Raises S3Error InvalidArgument, InvalidRequest, AccessDenied."""
    _check_unique(target, headers)
    found = dict(target.query)
    token = _token(found, headers)
    if MARK_V1 in found:
        _require(found, QUERY_V1)
        moment = _moment(found, "Expires")
        return ClaimOssV1(found[MARK_V1], found["Signature"], found["Expires"], moment, "query", token)
    additional = parse_additional(found.get("x-oss-additional-headers"))
    version = found.get("x-oss-signature-version")
    if version == _V2:
        _require(found, _REQUIRED_V2)
        access_key, signature, ends = (
            found[name] for name in ("x-oss-access-key-id", "x-oss-signature", "x-oss-expires")
        )
        return ClaimOssV2(access_key, signature, ends, _moment(found, "x-oss-expires"), "query", token, additional)
    if version != _V4:
        _refuse("x-oss-signature-version", f"x-oss-signature-version must be {_V4} or {_V2}.")
    _require(found, _REQUIRED_V4)
    access_key, scope = parse_credential(found["x-oss-credential"])
    timestamp, signature = found["x-oss-date"], found["x-oss-signature"]
    try:
        epoch_seconds(timestamp)
    except ValueError:
        _refuse("x-oss-date", "x-oss-date must be of the form YYYYMMDDTHHMMSSZ.")
    expires = found["x-oss-expires"]
    if not (_is_number(expires, 6) and 1 <= int(expires) <= LONGEST_EXPIRES):
        _refuse("x-oss-expires", f"x-oss-expires must be between 1 and {LONGEST_EXPIRES} seconds.")
    return ClaimOssV4(access_key, signature, timestamp, int(expires), "query", token, additional, scope)


# A client sends the same credential and names with every request.
@lru_cache(maxsize=1024)
def parse_credential(text: str) -> tuple[str, OssScope]:
    """Access key and scope of a version 4 credential. Raises S3Error InvalidArgument."""
    # From the right: an access key may hold a slash, the scope may not.
    parts = text.rsplit("/", 4)
    if len(parts) != 5 or not parts[0] or parts[4] != TERMINATOR:
        _refuse("Credential", f"The credential must be of the form key/YYYYMMDD/region/oss/{TERMINATOR}.")
    access_key, date, region, product, _ = parts
    if len(region) > _LONGEST_REGION:
        _refuse("Credential", "The region is too long.")
    return access_key, OssScope(date, region, product)


@lru_cache(maxsize=1024)
def parse_additional(text: str | None) -> tuple[str, ...]:
    """The names of AdditionalHeaders. Raises S3Error InvalidArgument for an empty name or a repeated one."""
    if text is None:
        return ()
    names = sorted(text.lower().split(";"))
    if not names[0] or len(set(names)) != len(names):
        _refuse("AdditionalHeaders", "AdditionalHeaders must name each header once, separated by semicolons.")
    return tuple(names)


def _fields(rest: str, separator: str, names: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in rest.split(","):
        name, _, value = field.partition(separator)
        name = name.strip(" \t")
        if name not in names or name in found:
            _refuse("Authorization", f"The Authorization header has {', '.join(names)}, each at most once.")
        found[name] = value.strip(" \t")
    return found


def _field(found: Mapping[str, str], name: str) -> str:
    value = found.get(name)
    if not value:
        _refuse("Authorization", f"The Authorization header lacks {name}.")
    return value


def _require(found: Mapping[str, str], names: tuple[str, ...]) -> None:
    for name in names:
        if not found.get(name):
            _refuse(name, f"A signed URL needs all of {', '.join(names)}.")


def _check_unique(target: Target, headers: Headers) -> None:
    repeated = _first_repeated(name for name, _ in target.query)
    if repeated is not None:
        _refuse(repeated, "A query parameter was given more than once.")
    if any(not name for name, _ in target.query):
        # It would be signed as nothing.
        _refuse("", "A query parameter has no name.")
    # Of items, as a mapping of headers names each once.
    repeated = _first_repeated(name.lower() for name, _ in headers.items() if name[:6].lower() == "x-oss-")
    if repeated is not None:
        raise S3Error("InvalidRequest", f"The header {repeated} must be given once.")


def _first_repeated(names: Iterable[str]) -> str | None:
    seen = set[str]()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _token(query: Mapping[str, str], headers: Headers) -> str | None:
    tokens = [query[name] for name in _TOKENS if name in query]
    tokens += [value for name in _TOKENS if (value := single(headers, name)) is not None]
    if len(tokens) > 1:
        raise S3Error("InvalidRequest", "The security token must be given once.")
    return tokens[0] if tokens else None


def _timestamp(date: str | None) -> str:
    try:
        return timestamp_of_date_header(date or "")
    except ValueError:
        raise S3Error("AccessDenied", "A signed request needs a valid x-oss-date or Date header.") from None


def _moment(found: Mapping[str, str], name: str) -> int:
    if not _is_number(found[name], _LONGEST_MOMENT):
        raise S3Error("AccessDenied", f"{name} must be in seconds since 1970.")
    return int(found[name])


def _is_number(text: str, longest: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= longest


def _refuse(name: str, message: str) -> NoReturn:
    raise S3Error("InvalidArgument", message, ArgumentName=name)
