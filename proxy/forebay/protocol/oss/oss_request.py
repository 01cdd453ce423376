"""A request in OSS's terms, as the request of S3 that asks for the same.

    PUT /b/k?uploadId=..&partNumber=2   x-oss-...      ->   PUT /b/k?uploadId=..&partNumber=2   x-amz-...
    HEAD /b/k?objectMeta                               ->   HEAD /b/k
    GET /b?bucketInfo                                  ->   GET /b?acl

After `as_s3` everything goes the way of S3: what is authorised, cached and sent is told by the target and the headers
it gives. So it is strict: what no row of the catalogue knows is refused, and nothing that only S3 knows comes through:
an `x-amz-` header of an OSS request was covered by no signature. What has to be remembered until the answer can be
given in OSS's terms stands in `Asked`.

Not here: the signature, which was verified before against the request as it came, and documents in bodies.
"""

from dataclasses import dataclass, replace
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.protocol.header_map import Headers, single
from forebay.protocol.operation_table import Level
from forebay.protocol.oss.oss_headers import IGNORED, OSS_META, REQUEST_HEADERS, S3_META, s3_etags, s3_request_value
from forebay.protocol.oss.oss_operation_table import OSS_CATALOGUE, OssOperation, find_operation
from forebay.protocol.range_header import WHOLE, parse_range, range_header
from forebay.protocol.target import Target

DEFAULT_KEYS: Final = "100"
"""How many keys a listing has where none are asked for; S3's own default is 1,000."""

_MD5_OF_NOTHING: Final = "1B2M2Y8AsgTpgAmY7PhCfg=="
_FORBID: Final = "x-oss-forbid-overwrite"
_COMPLETE_ALL: Final = "x-oss-complete-all"
_TAGS: Final = frozenset({"if-match", "if-none-match"})
# Of a URL's signature, in any version; lower case.
_SIGNATURE_QUERY: Final = frozenset(
    {
        "expires",
        "ossaccesskeyid",
        "security-token",
        "signature",
        "x-oss-access-key-id",
        "x-oss-additional-headers",
        "x-oss-credential",
        "x-oss-date",
        "x-oss-expires",
        "x-oss-security-token",
        "x-oss-signature",
        "x-oss-signature-version",
    }
)
# Restrictions of a signed URL to certain callers, which Forebay can't hold to.
_RESTRICTING: Final = "x-oss-ac-"
_CALLBACK: Final = frozenset({"callback", "callback-var", "x-oss-callback", "x-oss-callback-var"})
# Of the query, those that S3 has under the same name; lists take more.
_LISTS: Final = frozenset({"ListObjects", "ListObjectsV2", "ListObjectVersions", "ListMultipartUploads"})
_MARKERS: Final = frozenset[str]().union(*(row.optional for row in OSS_CATALOGUE if row.s3 in {*_LISTS, "ListParts"}))
_READS: Final = frozenset({"GetObject", "HeadObject"})
_KEPT_HERE: Final = frozenset({"encoding-type", "objectMeta", "bucketInfo", "sequential"})


@dataclass(frozen=True, slots=True)
class OssRequest:
    """What was asked for, and how the answer is to be told."""

    operation: OssOperation
    target: Target
    headers: Headers
    """Target and headers in S3's terms."""
    original_target: Target
    """The target as it came."""
    encodes_names: bool = False
    """Whether names in the answer are to be percent-encoded (`encoding-type=url`)."""
    ignores_ranges: bool = False
    """Whether a range that does not lie in the object is to be ignored, as OSS does unless it is told otherwise."""
    forbids_overwrite: bool = False
    completes_all: bool = False
    """Whether a completion takes the parts that there are (x-oss-complete-all)."""
    origin_is_oss: bool = False
    """Whether the origin is OSS itself, whose ETags are told as they are."""

    @property
    def name(self) -> str:
        return self.operation.name

    @property
    def lenient_range(self) -> bool:
        """Whether there is a range that is to be ignored so."""
        return self.ignores_ranges and "Range" in self.headers


def to_s3_request(method: str, target: Target, headers: Headers, *, origin_is_oss: bool = False) -> OssRequest:
    """`own_etags`: the origin is OSS itself, so its ETags are left as they are.

    Raises S3Error: NotImplemented for what S3 can't express, MethodNotAllowed, InvalidArgument.
    """
    query, extra = _query(target.query)
    names = frozenset(name for name, _ in query)
    copies = "x-oss-copy-source" in headers
    level = _level(target)
    row = find_operation(level, method, names, copies)
    if row is None:
        raise S3Error("MethodNotAllowed", Method=method, ResourceType=level.upper())
    if not row.s3:
        raise S3Error("NotImplemented", f"{row.name} is not supported. {row.note}")
    unknown = names - row.required - row.optional - {"encoding-type"}
    if unknown:
        raise S3Error("NotImplemented", f"Unknown query parameters: {', '.join(sorted(unknown))}.")
    if len(names) < len(query):
        raise S3Error("InvalidArgument", "A query parameter was given more than once.")
    forbids = _is_true(headers, _FORBID)
    fields = _headers(row, headers, extra, origin_is_oss=origin_is_oss)
    if row.copies and "Content-MD5" in fields:
        # Of the body, which a copy has none of; some origins take it for that of what is copied.
        if single(headers, "Content-MD5") != _MD5_OF_NOTHING:
            raise S3Error("BadDigest")
        del fields["Content-MD5"]
    if forbids and row.s3 in {"PutObject", "CopyObject", "CompleteMultipartUpload"}:
        fields["If-None-Match"] = "*"
    reads = row.s3 == "GetObject"
    if reads and "Range" in fields and parse_range(range_header(fields)) is WHOLE:
        del fields["Range"]  # it makes no sense, so it is ignored: not every origin needs to be asked how
    behaviour = single(headers, "x-oss-range-behavior") or ""
    return OssRequest(
        row,
        replace(target, query=_s3_query(row, query)),
        CIMultiDictProxy(fields),
        target,
        encodes_names=dict(query).get("encoding-type") == "url",
        ignores_ranges=reads and behaviour.lower() != "standard",
        forbids_overwrite=forbids,
        completes_all=row.s3 == "CompleteMultipartUpload" and single(headers, _COMPLETE_ALL) == "yes",
        origin_is_oss=origin_is_oss,
    )


def _level(target: Target) -> Level:
    return "object" if target.key is not None else "bucket" if target.bucket is not None else "service"


def _query(query: tuple[tuple[str, str], ...]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The query without the signature; what tells the operation, and what stands for a header."""
    kept, extra = [], []
    for name, value in query:
        lower = name.lower()
        if lower in _SIGNATURE_QUERY or lower == "x-oss-traffic-limit":
            continue
        if lower in _CALLBACK:
            raise S3Error("NotImplemented", "Callbacks are not supported.")
        if lower.startswith(_RESTRICTING):
            raise S3Error("NotImplemented", f"A URL can't be restricted by {name} here.")
        if lower == "x-oss-request-payer":
            extra.append((lower, value))
        elif lower.startswith("x-amz-"):
            raise S3Error("InvalidArgument", "A request speaks OSS or S3, not both.", ArgumentName=name)
        else:
            kept.append((name, value))
    return kept, extra


def _headers(
    row: OssOperation, headers: Headers, extra: list[tuple[str, str]], *, origin_is_oss: bool
) -> CIMultiDict[str]:
    fields = CIMultiDict[str]()
    for name, value in [*headers.items(), *extra]:
        lower = name.lower()
        if lower.startswith(OSS_META):
            if row.s3 in _READS:
                continue  # of no meaning to a read, and not to keep it from the cache
            fields.add(S3_META + lower.removeprefix(OSS_META), value)
        elif lower.startswith("x-oss-"):
            _add(fields, row, lower, value.strip(), origin_is_oss=origin_is_oss)
        elif lower.startswith("x-amz-") or lower in {"authorization", "security-token"}:
            continue
        elif lower == "range" and row.name == "GetObjectMeta":
            continue  # it tells of the whole object
        else:
            fields.add(name, condition_value(lower, value, origin_is_oss=origin_is_oss))
    return fields


def condition_value(name: str, value: str, *, origin_is_oss: bool) -> str:
    """The value of a header (name in lower case) that both have, in S3's terms: ETags are written otherwise there."""
    return s3_etags(value) if name in _TAGS and not origin_is_oss else value


def _add(fields: CIMultiDict[str], row: OssOperation, lower: str, value: str, *, origin_is_oss: bool) -> None:
    """An x-oss- header, as S3 has it. Raises S3Error."""
    if lower in IGNORED or (lower == _COMPLETE_ALL and row.s3 == "CompleteMultipartUpload" and value == "yes"):
        return
    if lower in _CALLBACK:
        raise S3Error("NotImplemented", "Callbacks are not supported.")
    name = REQUEST_HEADERS.get(lower)
    if name is None:
        raise S3Error("NotImplemented", f"S3 has nothing like the header {lower}.")
    if row.s3 in _READS and lower != "x-oss-request-payer":
        return
    if name in fields:
        raise S3Error("InvalidArgument", f"{lower} was given more than once.", ArgumentName=lower)
    translated = s3_request_value(lower, value, origin_is_oss=origin_is_oss)
    if translated is None and row.s3 in {"PutObjectAcl", "PutBucketAcl"}:
        translated = "private"
    if translated is not None:
        fields[name] = translated


def _s3_query(row: OssOperation, query: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    if row.name == "GetBucketInfo":
        return (("acl", ""),)
    if row.s3 == "ListBuckets":
        return ()  # the whole list is asked for: the part that is wanted is cut out of it
    # SDKs of OSS send every parameter of a list, empty where there is nothing to say, which S3 would take for a value.
    kept = [pair for pair in query if pair[0] not in _KEPT_HERE and (pair[1] or pair[0] not in _MARKERS)]
    if row.s3 not in _LISTS:
        return tuple(kept)
    if row.s3 != "ListMultipartUploads" and "max-keys" not in dict(kept):
        kept.append(("max-keys", DEFAULT_KEYS))
    # Always, as a key may hold what XML can't; the answer is decoded before it is told.
    return (*kept, ("encoding-type", "url"))


def _is_true(headers: Headers, name: str) -> bool:
    return (single(headers, name) or "").lower() == "true"
