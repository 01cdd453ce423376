"""A client's listing as a query of the namespace, and the continuation tokens of Forebay's own.

    GET /bucket?list-type=2&prefix=a/&delimiter=/&start-after=a/b      ListingQuery: prefix a/, delimiter /, behind a/b

Forebay answers the forms that all origins read alike. None means: the origin answers. It does for

- values that origins read differently: a malformed or repeated number, an encoding but `url`, an empty delimiter in
  version 1 (Swift answers it with a NextMarker), a start inside a common prefix (Ceph skips that, Swift lists it);
- continuation tokens of the origin: a listing that it began is finished by it;
- request headers that change a listing (`origin_only_header`).

Where a listing has members of packs, which the origin lacks, the values of the first kind are read as S3 reads them
(`parse_listing` with `as_s3`).

s3torchconnector and Mountpoint send `x-amz-optional-object-attributes: RestoreStatus` with each listing. It adds an
element to entries of objects that may be archived, and leaves all others unchanged.

A token has the last name of the page and its kind, so it is valid in every worker, after a restart, and for the next
snapshot. It begins with a character that base64 lacks and ends with a checksum, so it can't be an origin's token.

    ~fb1 kind (k: after this key, p: after this common prefix) base64url(name) crc32 in hex

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from zlib import crc32

from forebay.protocol.header_map import Headers
from forebay.protocol.target import Target

MAX_KEYS: Final = 1000
"""Names of a page, at most and by default."""
LAST_CHARACTER: Final = "\U0010ffff"
"""No key has it (it is a noncharacter), and it sorts behind all others."""

_TOKEN: Final = re.compile(r"~fb1([kp])([A-Za-z0-9_-]*)\.([0-9a-f]{8})")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_NAMES: Final = frozenset(
    {
        "continuation-token", "delimiter", "encoding-type", "fetch-owner", "list-type", "marker", "max-keys", "prefix",
        "start-after", "x-id",
    }
)  # fmt: skip
_HARMLESS: Final = frozenset(
    {"x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "x-amz-user-agent", "x-amz-te"}
)
_ATTRIBUTES: Final = "x-amz-optional-object-attributes"
_RESTORE_STATUS: Final = "RestoreStatus"


@dataclass(frozen=True, slots=True)
class StartPoint:
    """The start of a page: behind a name, which is a key or a common prefix."""

    name: str = ""
    kind: Literal["key", "prefix"] = "key"

    def token(self) -> str:
        """Returns the continuation token for this point."""
        name = self.name.encode()
        encoded = urlsafe_b64encode(name).decode().rstrip("=")  # which encoding-type=url would change
        return f"~fb1{self.kind[0]}{encoded}.{_checksum(self.kind[0], name):08x}"


@dataclass(frozen=True, slots=True)
class ListingQuery:
    """One page of a listing."""

    version: Literal[1, 2]
    bucket: str
    prefix: str
    delimiter: str
    """Empty: none."""
    start: StartPoint
    max_keys: int | None
    """None: not given."""
    is_encoded: bool = False
    """Whether `encoding-type=url` was requested."""
    has_owner: bool = False
    """Whether entries name their owners."""
    marker: str = ""
    token: str | None = None
    start_after: str | None = None
    """The parameters as they came, which the response repeats."""
    has_restore_status: bool = False
    """Whether entries of objects that may be archived say whether they are restored."""

    def limit(self, most: int) -> int:
        """Returns the largest number of names in the page. `most`: the origin's own limit."""
        return min(self.max_keys if self.max_keys is not None else MAX_KEYS, most)


def origin_only_header(headers: Iterable[tuple[str, str]]) -> str | None:
    """The name of a header, of these, that only the origin can obey in a listing; None: there is none."""
    for name, value in headers:
        lower = name.lower()
        is_known = lower in _HARMLESS or (lower == _ATTRIBUTES and value.strip() == _RESTORE_STATUS)
        if lower.startswith("x-amz-") and not is_known:
            return lower
    return None


def parse_listing(
    target: Target, headers: Headers, version: Literal[1, 2], *, as_s3: bool = False
) -> ListingQuery | None:
    """Parses the query of a ListObjects (version 1) or ListObjectsV2 request; None: the origin answers. `as_s3`: reads
    values that origins read differently as S3 does, and ignores headers."""
    query = dict(target.query)
    if target.bucket is None or len(query) != len(target.query) or not query.keys() <= _NAMES:
        return None
    if not as_s3 and origin_only_header(headers.items()) is not None:
        return None
    numbers = query.get("max-keys")
    if numbers is not None and not _NUMBER.fullmatch(numbers):
        return None
    delimiter, encoding, owner = query.get("delimiter", ""), query.get("encoding-type"), query.get("fetch-owner")
    if encoding not in {None, "url"} or owner not in {None, "true", "false"}:
        return None
    if version == 1 and "delimiter" in query and not delimiter and not as_s3:
        return None
    start = _start_v1(query) if version == 1 else _start_v2(query)
    if start is None:
        return None
    if not _is_usual_start(start, query, delimiter):
        if not as_s3:
            return None
        rest = start.name[len(query.get("prefix", "")) :]
        start = StartPoint(start.name, "prefix" if rest.find(delimiter) == len(rest) - len(delimiter) else "key")
    return ListingQuery(
        version,
        target.bucket,
        query.get("prefix", ""),
        delimiter,
        start,
        int(numbers) if numbers is not None else None,
        is_encoded=encoding == "url",
        has_owner=version == 1 or owner == "true",
        marker=query.get("marker", ""),
        token=query.get("continuation-token"),
        start_after=query.get("start-after"),
        has_restore_status=_ATTRIBUTES in headers,
    )


def without_own_token(target: Target) -> Target | None:
    """The target of the same listing with `start-after` in place of a token of Forebay's own, for the origin; None: it
    has no such token."""
    start = parse_token(target.param("continuation-token") or "")
    if start is None:
        return None
    after = start.name if start.kind == "key" else start.name + LAST_CHARACTER
    query = [pair for pair in target.query if pair[0] not in {"continuation-token", "start-after"}]
    if after:
        query.append(("start-after", after))
    return target._replace(query=tuple(query))


def parse_token(token: str) -> StartPoint | None:
    """Returns the point in a token of Forebay's own; None for any other token."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    try:
        name = urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4))
        if _checksum(found[1], name) != int(found[3], 16):
            return None
        return StartPoint(name.decode(), "key" if found[1] == "k" else "prefix")
    except (Base64Error, UnicodeDecodeError):
        return None


def _start_v1(query: dict[str, str]) -> StartPoint | None:
    if query.keys() & {"list-type", "continuation-token", "start-after", "fetch-owner"}:
        return None
    marker, prefix, delimiter = query.get("marker", ""), query.get("prefix", ""), query.get("delimiter", "")
    if delimiter and marker.startswith(prefix) and marker.endswith(delimiter) and delimiter in marker[len(prefix) :]:
        return StartPoint(marker, "prefix")  # a NextMarker, if it is the common prefix as a whole
    return StartPoint(marker)


def _start_v2(query: dict[str, str]) -> StartPoint | None:
    if query.get("list-type") != "2" or "marker" in query:
        return None
    token = query.get("continuation-token")
    return parse_token(token) if token is not None else StartPoint(query.get("start-after", ""))


def _is_usual_start(start: StartPoint, query: dict[str, str], delimiter: str) -> bool:
    """Whether origins agree on the first name behind the start."""
    prefix = query.get("prefix", "")
    if not delimiter or not start.name.startswith(prefix) or "continuation-token" in query:
        return True
    rest = start.name[len(prefix) :]
    if start.kind == "prefix":
        return rest.find(delimiter) == len(rest) - len(delimiter)
    return delimiter not in rest


def _checksum(kind: str, name: bytes) -> int:
    return crc32(kind.encode() + name)
