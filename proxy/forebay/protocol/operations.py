"""Classification of requests: the row of forebay.protocol.operation_table that a request matches.

    GET or HEAD of an object, without anything that could change the response  plain read, which is cached
    the same with versionId or response-* in the query                         its variant, which is cached too
    a row of the table, with no query name that the row does not have          that operation
    a row, and unknown query names                                             UnknownGet, UnknownPut, ...
    POST of `.forebay/batch`                                                   GetBatch, which S3 does not have
    a sub-resource where S3 has none, two of them at once                      refused

Unknown operations are forwarded, conservatively: they need the permission that the method suggests, on the object or on
the whole bucket, and a success of any method but GET and HEAD affects the object or the whole bucket.

A request is refused if an origin could take it for another operation than the authorised one. One such request has a
bucket's sub-resource on an object: Swift, for one, drops the key and serves the bucket. Others are the operations on
the service except ListBuckets: MinIO and Ceph accept STS and IAM calls there, which would return credentials made from
ours.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from forebay.core.errors import S3Error
from forebay.core.names import BATCH_KEY
from forebay.protocol.copy_source import COPY_SOURCE, CopySource, parse_copy_source
from forebay.protocol.header_map import Headers
from forebay.protocol.operation_table import OPERATIONS, QUALIFIERS, SELECTORS, Access, Effect, Level, OperationRow
from forebay.protocol.read_variants import OVERRIDES, VERSION, ReadVariant, read_variant
from forebay.protocol.target import Target

__all__ = ["Access", "CopySource", "Effect", "Level", "Operation", "classify", "parse_copy_source"]


@dataclass(frozen=True, slots=True)
class Operation:
    """The operation of a request."""

    name: str
    """The name in the API reference of S3; for an operation that it lacks, `Unknown` and the method (`UnknownGet`)."""
    level: Level
    access: Access
    """The permission that it needs: on the object, or on the whole bucket or the listed prefix."""
    effect: Effect
    """The keys that a success changes at most."""
    is_plain_read: bool
    """Whether it is a GET or HEAD of the current version of an object or of a range, without further parameters."""
    variant: ReadVariant | None = None
    """A read with parameters that a cache can answer. Only plain reads and variants may be cached."""


RENAME_SOURCE: Final = "x-amz-rename-source"
METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE")

# The x-amz-* headers that change neither the bytes of a read nor its permission. The first three belong to the
# signature. checksum-mode requests checksums, which a hit includes if the origin sent them. user-agent is for the
# origin's log. api-version is constant: the AWS SDK for C++ (pyarrow) sends S3's only version, of 2006, in every
# request. Only the origin can evaluate expected-bucket-owner and request-payer, so a read with one of them is
# forwarded, as is a read with a header that is not listed.
_HARMLESS: Final = frozenset(
    {
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-security-token",
        "x-amz-checksum-mode",
        "x-amz-user-agent",
        "x-amz-api-version",
        "x-oss-content-sha256",
        "x-oss-date",
        "x-oss-security-token",
    }
)
_SIGNIFICANT_PREFIXES: Final = ("x-amz-", "x-oss-")
# Headers of nearly every request, as clients spell them: one lookup, without lower-casing each name.
_USUAL: Final = frozenset(
    spelling
    for name in (
        *_HARMLESS,
        *("accept", "accept-encoding", "amz-sdk-invocation-id", "amz-sdk-request", "authorization", "connection"),
        *("content-length", "content-type", "date", "host", "if-match", "if-none-match", "range", "user-agent"),
    )
    for spelling in (name, name.title(), name.title().replace("Sha256", "SHA256"))
)
# Query names of a presigned URL: the signature's own, and headers that signers move into the query.
_PRESIGNED: Final = _HARMLESS | {
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-expires",
    "x-amz-signature",
    "x-amz-signedheaders",
}

_ROWS: Final[dict[tuple[Level, str], list[OperationRow]]] = {}
for _row in sorted(OPERATIONS, key=lambda row: -len(row.required)):
    _ROWS.setdefault((_row.level, _row.method), []).append(_row)

_OPERATIONS: Final = {
    row.name: Operation(row.name, row.level, row.access, row.effect, is_plain_read=False) for row in OPERATIONS
}
_REQUIRED: Final = SELECTORS | QUALIFIERS
_PLAIN: Final = {
    row.method: Operation(row.name, row.level, row.access, row.effect, is_plain_read=True)
    for row in OPERATIONS
    if row.cached
}

_PLAIN_WRITES: Final = {"PUT": _OPERATIONS["PutObject"], "DELETE": _OPERATIONS["DeleteObject"]}
"""Writes of an object without a query, which are no copies: as the table says, found sooner."""

PLAIN_GET: Final = _PLAIN["GET"]
"""The operation of each entry of a batch."""
_GET_BATCH: Final = Operation("GetBatch", "object", Access.READ, Effect.NOTHING, is_plain_read=False)


def classify(method: str, target: Target, headers: Headers) -> Operation:
    """Returns the operation of a request.

    Raises S3Error: MethodNotAllowed and NotImplemented for a refused operation, InvalidArgument for an ambiguous one.
    """
    plain = _PLAIN.get(method)
    if plain is not None and target.key is not None and _is_plain_read(target.query, headers):
        return plain
    plain = _PLAIN_WRITES.get(method)
    if (
        plain is not None
        and target.key is not None
        and not target.query
        and COPY_SOURCE not in headers
        and RENAME_SOURCE not in headers
    ):
        return plain
    if method not in METHODS:
        # OPTIONS is answered before classification (forebay.protocol.cors_preflight).
        raise S3Error("MethodNotAllowed", Method=method)
    level: Level = "object" if target.key is not None else "bucket" if target.bucket is not None else "service"
    copies = _check_headers(method, headers)
    names = _operation_names(target.query)
    if method == "POST" and target.key == BATCH_KEY and not names and not copies:
        return _GET_BATCH
    row = _matching_row(level, method, names & _REQUIRED, copies)
    if row is not None and names <= row.required | row.optional:
        if row.refused:
            raise S3Error("NotImplemented", f"{row.name} is not supported. {row.why}")
        if row.name == "PostObject":
            # A form upload is not classified by its request but by its form fields (forebay.request.form_upload).
            raise S3Error(
                "PreconditionFailed", "A bucket takes a POST as multipart/form-data.", Condition="Content-Type"
            )
        operation = _OPERATIONS[row.name]
        return replace(operation, variant=_variant(target, headers)) if row.cached else operation
    return _unknown(level, method, row, names)


def _is_plain_read(query: tuple[tuple[str, str], ...], headers: Headers) -> bool:
    for name, value in query:
        if name == "x-id":
            if value not in {"GetObject", "HeadObject"}:
                return False
        elif name.lower() not in _PRESIGNED:
            return False
    if "," in headers.get("Range", ""):
        return False  # origins differ: S3 responds to several ranges with the whole object, Swift with all ranges
    return _USUAL.issuperset(headers) or all(is_harmless(name.lower()) for name in headers)


def _variant(target: Target, headers: Headers) -> ReadVariant | None:
    rest = tuple(pair for pair in target.query if pair[0] not in OVERRIDES and pair[0] != VERSION)
    return read_variant(target.query) if _is_plain_read(rest, headers) else None


def is_harmless(name: str) -> bool:
    """Whether a header, its name in small letters, changes neither the bytes of a read nor its permission."""
    return not name.startswith(_SIGNIFICANT_PREFIXES) or name in _HARMLESS


def _check_headers(method: str, headers: Headers) -> bool:
    """Whether the request is a copy. Raises S3Error for headers that Forebay refuses."""
    if RENAME_SOURCE in headers:
        raise S3Error("NotImplemented", "RenameObject is not supported.")
    if method == "POST":
        for content_type in headers.getall("content-type", []):
            # The object's name is in the form, so authorisation by the target would authorise another object.
            if content_type.strip().lower().startswith("multipart/form-data"):
                raise S3Error("NotImplemented", "A form can be uploaded to a bucket alone, without a query.")
    return COPY_SOURCE in headers


def _operation_names(query: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """Returns the query names that can select the operation: without the signature's and hoisted headers."""
    names = []
    for name, _ in query:
        lower = name.lower()
        if lower in {COPY_SOURCE, RENAME_SOURCE}:
            raise S3Error("NotImplemented", "The source of a copy must be a header, not a query parameter.")
        if name != "x-id" and not lower.startswith("x-amz-"):
            names.append(name)
    unique = frozenset(names)
    if len(unique) < len(names):
        # Forebay would authorise the first value, and the origin might obey the last.
        raise S3Error("InvalidArgument", "A query parameter was given more than once.")
    return unique


@lru_cache(maxsize=256)
def _matching_row(level: Level, method: str, names: frozenset[str], copies: bool) -> OperationRow | None:
    """Returns the row with the sub-resource of the request. `names`: those of its query that any row requires."""
    selectors = names & SELECTORS
    for row in _ROWS.get((level, method), ()):
        if row.required <= names and row.is_copy == copies and selectors <= row.required:
            return row
    if copies:
        raise S3Error("InvalidArgument", "A copy source was given where nothing is copied.", ArgumentName=COPY_SOURCE)
    if selectors or level == "service":
        raise S3Error("MethodNotAllowed", Method=method, ResourceType=", ".join(sorted(selectors)) or "SERVICE")
    return None


def _unknown(level: Level, method: str, row: OperationRow | None, names: frozenset[str]) -> Operation:
    """Returns the operation of a request with query names that `row` does not have. `row` is None: unknown method."""
    if row is not None and (row.refused and row.required):
        raise S3Error("NotImplemented", f"{row.name} is not supported. {row.why}")
    if level == "service" or (row is not None and (row.is_copy or row.effect is Effect.LISTED_KEYS)):
        # These operations affect objects besides the target, which have to be authorised: no unknown names here.
        raise S3Error("InvalidArgument", f"Unknown query parameters: {', '.join(sorted(names))}.")
    access = Access.WRITE if row is None else row.access
    effect = Effect.OBJECT if level == "object" else Effect.BUCKET
    if method in {"GET", "HEAD"}:
        effect = Effect.NOTHING
    return Operation(f"Unknown{method.title()}", level, access, effect, is_plain_read=False)
