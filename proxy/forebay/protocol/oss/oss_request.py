"""An OSS client's request, translated into the request of S3 with the same meaning.

    PUT /b/k?uploadId=..&partNumber=2   x-oss-...      ->   PUT /b/k?uploadId=..&partNumber=2   x-amz-...
    HEAD /b/k?objectMeta                               ->   HEAD /b/k
    GET /b?bucketInfo                                  ->   GET /b?acl

All later steps treat the result as a request of S3: its target and headers decide what is authorised, cached and sent.
So the translation is strict: a request that no row of the operation table fits is refused, and nothing of S3's own
comes through, as no signature covered an `x-amz-` header. OssRequest keeps what the response in OSS's form needs.

Not here: the signature, which was verified over the original request, and documents in bodies
(forebay.protocol.oss.oss_request_documents).
"""

from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.core.names import BATCH_KEY
from forebay.protocol.copy_source import COPY_SOURCE
from forebay.protocol.dates import parse_http_date
from forebay.protocol.header_map import Headers, single
from forebay.protocol.operation_table import Level
from forebay.protocol.oss.oss_headers import IGNORED, OSS_META, REQUEST_HEADERS, S3_META, s3_etags, s3_request_value
from forebay.protocol.oss.oss_operation_table import GET_BATCH, LISTINGS, OSS_CATALOGUE, OssOperation, find_operation
from forebay.protocol.range_header import WHOLE, parse_range, range_header
from forebay.protocol.signatures.oss_claim import SIGNATURE_QUERY
from forebay.protocol.target import Target

MAX_KEYS: Final = 1000
"""The most keys, uploads or parts of a page."""
DEFAULT_KEYS: Final = "100"
"""The keys of a listing by default; S3's own default is 1,000."""

_MD5_OF_NOTHING: Final = "1B2M2Y8AsgTpgAmY7PhCfg=="
_FORBID: Final = "x-oss-forbid-overwrite"
_COMPLETE_ALL: Final = "x-oss-complete-all"
_TAGS: Final = frozenset({"if-match", "if-none-match"})
# Restricts a signed URL to certain callers, which Forebay can't enforce.
_RESTRICTING: Final = "x-oss-ac-"
_CALLBACK: Final = frozenset({"callback", "callback-var", "x-oss-callback", "x-oss-callback-var"})
_LIMITS: Final = frozenset({"max-keys", "max-parts", "max-uploads"})
_SOURCE_CONDITION: Final = f"{COPY_SOURCE}-if-"
_MARKERS: Final = frozenset[str]().union(*(row.optional for row in OSS_CATALOGUE if row.s3 in {*LISTINGS, "ListParts"}))
_READS: Final = frozenset({"GetObject", "HeadObject"})
_KEPT_HERE: Final = frozenset({"encoding-type", "objectMeta", "bucketInfo", "sequential"})


@dataclass(frozen=True, slots=True)
class OssRequest:
    """A translated request, and the values that its response in OSS's form needs."""

    operation: OssOperation
    target: Target
    headers: Headers
    """Target and headers in S3's terms."""
    original_target: Target
    """The target in OSS's terms."""
    encodes_names: bool = False
    """Whether names in the response are percent-encoded (`encoding-type=url`)."""
    ignores_ranges: bool = False
    """Whether a range beyond the object is ignored, as OSS does by default."""
    forbids_overwrite: bool = False
    """Whether an existing object must not be replaced (x-oss-forbid-overwrite)."""
    completes_all: bool = False
    """Whether a completion uses all parts that were uploaded (x-oss-complete-all)."""
    origin_is_oss: bool = False
    """Whether the origin is OSS itself, whose ETags stay as they are."""

    @property
    def name(self) -> str:
        """The name of the operation of OSS."""
        return self.operation.name

    @property
    def source_conditions(self) -> frozenset[str]:
        """Returns the conditions on the source of a copy, as S3's headers in lower case; empty and malformed ones are
        left out."""
        sent = ((name.lower(), value) for name, value in self.headers.items())
        return frozenset(
            name
            for name, value in sent
            if name.startswith(_SOURCE_CONDITION)
            and (parse_http_date(value.strip()) is not None if name.endswith("-since") else value.strip())
        )

    @property
    def lenient_range(self) -> bool:
        """Whether the request has a range that may have to be ignored."""
        return self.ignores_ranges and "Range" in self.headers


def to_s3_request(method: str, target: Target, headers: Headers, *, origin_is_oss: bool = False) -> OssRequest:
    """Translates a request. `origin_is_oss`: the origin is OSS itself, so ETags are not changed. Raises S3Error:
    NotImplemented for a value that S3 lacks, MethodNotAllowed, InvalidArgument.
    """
    query, extra = _query(target.query)
    names = frozenset(name for name, _ in query)
    copies = "x-oss-copy-source" in headers
    level = _level(target)
    row = find_operation(level, method, names, copies)
    if row is None and method == "POST" and target.key == BATCH_KEY and not names:
        row = GET_BATCH
    if row is None:
        raise S3Error("MethodNotAllowed", Method=method, ResourceType=level.upper())
    if not row.s3:
        raise S3Error("NotImplemented", f"{row.name} is not supported. {row.note}")
    unknown = names - row.required - row.optional - {"encoding-type"}
    if unknown:
        raise S3Error("NotImplemented", f"Unknown query parameters: {', '.join(sorted(unknown))}.")
    if len(names) < len(query):
        raise S3Error("InvalidArgument", "A query parameter was given more than once.")
    for limit in _LIMITS & names:
        value = dict(query)[limit]
        if value and not (value.isascii() and value.isdecimal() and 1 <= int(value[:5]) <= MAX_KEYS):
            message = f"Argument {limit} must be an integer between 1 and {MAX_KEYS}."
            raise S3Error("InvalidArgument", message, ArgumentName=limit, ArgumentValue=value)
    forbids = _is_true(headers, _FORBID)
    fields = _headers(row, headers, extra, origin_is_oss=origin_is_oss)
    if row.copies and "Content-MD5" in fields:
        # A copy has no body; some origins compare this header with the MD5 of the source.
        if single(headers, "Content-MD5") != _MD5_OF_NOTHING:
            raise S3Error("BadDigest")
        del fields["Content-MD5"]
    if forbids and row.s3 in {"PutObject", "CopyObject", "CompleteMultipartUpload"}:
        fields["If-None-Match"] = "*"
    reads = row.s3 == "GetObject"
    if reads and "Range" in fields and parse_range(range_header(fields)) is WHOLE:
        del fields["Range"]  # an invalid range is ignored here: origins differ
    behaviour = single(headers, "x-oss-range-behavior") or ""
    return OssRequest(
        row,
        target._replace(query=_s3_query(row, query)),
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
    """The query without the signature: the operation's parameters, and those that stand for a header."""
    kept, extra = [], []
    for name, value in query:
        lower = name.lower()
        if lower in SIGNATURE_QUERY or lower == "x-oss-traffic-limit":
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
                continue  # meaningless on a read, which must stay cacheable
            fields.add(S3_META + lower.removeprefix(OSS_META), value)
        elif lower.startswith("x-oss-"):
            _add(fields, row, lower, value.strip(), origin_is_oss=origin_is_oss)
        elif lower.startswith("x-amz-") or lower in {"authorization", "security-token"}:
            continue
        elif lower == "range" and row.name == "GetObjectMeta":
            continue  # it describes the whole object
        else:
            fields.add(name, condition_value(lower, value, origin_is_oss=origin_is_oss))
    return fields


def condition_value(name: str, value: str, *, origin_is_oss: bool) -> str:
    """The value of a header that both sides have (name in lower case), in S3's terms: ETags differ in form."""
    return s3_etags(value) if name in _TAGS and not origin_is_oss else value


def _add(fields: CIMultiDict[str], row: OssOperation, lower: str, value: str, *, origin_is_oss: bool) -> None:
    """Adds an x-oss- header in S3's terms. Raises S3Error."""
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
        return ()  # S3 is asked for the whole list, of which the requested page is cut out
    # SDKs of OSS send every parameter of a list, empty by default, which S3 would read as a value.
    kept = [pair for pair in query if pair[0] not in _KEPT_HERE and (pair[1] or pair[0] not in _MARKERS)]
    if row.s3 not in LISTINGS:
        return tuple(kept)
    if row.s3 != "ListMultipartUploads" and "max-keys" not in dict(kept):
        kept.append(("max-keys", DEFAULT_KEYS))
    # Always, as a key may have characters that XML lacks; the response is decoded before it is translated.
    return (*kept, ("encoding-type", "url"))


def _is_true(headers: Headers, name: str) -> bool:
    return (single(headers, name) or "").lower() == "true"
