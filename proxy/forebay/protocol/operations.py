"""Which operation a request is: the row of forebay.protocol.operation_table that it positively matches, or what it may
be.

    GET or HEAD of an object, nothing about it that could change the answer   plain read, which is cached
    the same with versionId or response-* in the query                        its variant, which is cached too
    a row of the catalogue, with no query name that the row does not know      that operation
    a row, and names that nobody knows                                         UnknownGet, UnknownPut, ...
    a sub-resource where S3 has none, two of them at once                      refused

What is not known is passed on, conservatively: it needs what its method suggests, on the object or on the whole bucket,
and a success of anything but GET and HEAD touches the object or the whole bucket.

Refused are the requests that an origin could take for something else than what was authorised. A bucket's sub-resource
on an object is one: Swift, for one, drops the key and serves the bucket. So are operations on the service other than
ListBuckets: MinIO and Ceph answer STS and IAM calls there, which would hand out credentials made from ours.
"""

from dataclasses import dataclass
from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.copy_source import COPY_SOURCE, CopySource, parse_copy_source
from forebay.protocol.header_map import Headers
from forebay.protocol.operation_table import OPERATIONS, SELECTORS, Access, Effect, Level, OperationRow
from forebay.protocol.read_variants import OVERRIDES, VERSION, ReadVariant, read_variant
from forebay.protocol.target import Target

__all__ = ["Access", "CopySource", "Effect", "Level", "Operation", "classify", "parse_copy_source"]


@dataclass(frozen=True, slots=True)
class Operation:
    """What a request asks for."""

    name: str
    """As in the API reference of S3; `Unknown` and the method (`UnknownGet`) for what is not there."""
    level: Level
    access: Access
    """What the principal needs on the object; on bucket level, on the whole bucket or the prefix that is listed."""
    effect: Effect
    """What a success changes."""
    is_plain_read: bool
    """GET or HEAD of the current version of an object, whole or a range, as it is."""
    variant: ReadVariant | None = None
    """The same with something asked beyond it that a cache can answer. Nothing else may be cached."""


RENAME_SOURCE: Final = "x-amz-rename-source"
METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE")

# Of the x-amz-* headers, these change neither which bytes a read returns nor whether it may. The first three are the
# signature's. checksum-mode asks for checksums, which a hit gives where the origin has told them.
# user-agent is for the origin's log. S3's API has had one version since 2006, which the AWS SDK for C++ (pyarrow) names
# in every request. Of expected-bucket-owner and request-payer the origin is the judge, so a request that bears them is
# passed on; so is whatever is not listed.
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
_SUSPECT: Final = ("x-amz-", "x-oss-")
# What nearly every request bears, as the clients write it: looked up in one step, without lower-casing each name.
_USUAL: Final = frozenset(
    spelling
    for name in (
        *_HARMLESS,
        *("accept", "accept-encoding", "amz-sdk-invocation-id", "amz-sdk-request", "authorization", "connection"),
        *("content-length", "content-type", "date", "host", "if-match", "if-none-match", "range", "user-agent"),
    )
    for spelling in (name, name.title(), name.title().replace("Sha256", "SHA256"))
)
# The query of a presigned URL: the signature's own names, and headers that signers move into the query.
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

_PLAIN: Final = {
    row.method: Operation(row.name, row.level, row.access, row.effect, is_plain_read=True)
    for row in OPERATIONS
    if row.cached
}


def classify(method: str, target: Target, headers: Headers) -> Operation:
    """The operation that a request asks for.

    Raises S3Error: MethodNotAllowed and NotImplemented for what is refused, InvalidArgument for what is ambiguous.
    """
    plain = _PLAIN.get(method)
    if plain is not None and target.key is not None and _is_plain(target.query, headers):
        return plain
    if method not in METHODS:
        # OPTIONS is answered before it comes here (forebay.protocol.cors_preflight).
        raise S3Error("MethodNotAllowed", Method=method)
    level: Level = "object" if target.key is not None else "bucket" if target.bucket is not None else "service"
    copies = _check_headers(method, headers)
    names = _operation_names(target.query)
    row = _matching_row(level, method, names, copies)
    if row is not None and names <= row.required | row.optional:
        if row.refused:
            raise S3Error("NotImplemented", f"{row.name} is not supported. {row.why}")
        if row.name == "PostObject":
            # A form never comes here: what it is told by the form (forebay.request.form_upload).
            raise S3Error(
                "PreconditionFailed", "A bucket takes a POST as multipart/form-data.", Condition="Content-Type"
            )
        variant = _variant(target, headers) if row.cached else None
        return Operation(row.name, level, row.access, row.effect, is_plain_read=False, variant=variant)
    return _unknown(level, method, row, names)


def _is_plain(query: tuple[tuple[str, str], ...], headers: Headers) -> bool:
    for name, value in query:
        if name == "x-id":
            if value not in {"GetObject", "HeadObject"}:
                return False
        elif name.lower() not in _PRESIGNED:
            return False
    if "," in headers.get("Range", ""):
        return False  # origins differ: S3 answers several ranges with the whole object, Swift with all of them
    return _USUAL.issuperset(headers) or all(_is_harmless(name.lower()) for name in headers)


def _variant(target: Target, headers: Headers) -> ReadVariant | None:
    rest = tuple(pair for pair in target.query if pair[0] not in OVERRIDES and pair[0] != VERSION)
    return read_variant(target.query) if _is_plain(rest, headers) else None


def _is_harmless(name: str) -> bool:
    return not name.startswith(_SUSPECT) or name in _HARMLESS


def _check_headers(method: str, headers: Headers) -> bool:
    """Whether the request copies. Raises S3Error for what headers say and Forebay refuses."""
    if RENAME_SOURCE in headers:
        raise S3Error("NotImplemented", "RenameObject is not supported.")
    if method == "POST":
        for content_type in headers.getall("content-type", []):
            # The object is named in the form, so nobody could have authorised it by the target.
            if content_type.strip().lower().startswith("multipart/form-data"):
                raise S3Error("NotImplemented", "A form can be uploaded to a bucket alone, without a query.")
    return COPY_SOURCE in headers


def _operation_names(query: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """The query names that can tell what the operation is: not the signature's, not what stands for a header."""
    names = []
    for name, _ in query:
        lower = name.lower()
        if lower in {COPY_SOURCE, RENAME_SOURCE}:
            raise S3Error("NotImplemented", "The source of a copy must be a header, not a query parameter.")
        if name != "x-id" and not lower.startswith("x-amz-"):
            names.append(name)
    unique = frozenset(names)
    if len(unique) < len(names):
        # We would authorise the first, the origin might heed the last.
        raise S3Error("InvalidArgument", "A query parameter was given more than once.")
    return unique


def _matching_row(level: Level, method: str, names: frozenset[str], copies: bool) -> OperationRow | None:
    """The row whose sub-resource is the one that is named, whatever else is."""
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
    """What a request may be that bears names which `row` does not know. None: not even the method is known there."""
    if row is not None and (row.refused and row.required):
        raise S3Error("NotImplemented", f"{row.name} is not supported. {row.why}")
    if level == "service" or (row is not None and (row.is_copy or row.effect is Effect.LISTED_KEYS)):
        # Nothing here may depend on a name that we can't judge: what is named besides the target has to be authorised.
        raise S3Error("InvalidArgument", f"Unknown query parameters: {', '.join(sorted(names))}.")
    access = Access.WRITE if row is None else row.access
    touches = Effect.OBJECT if level == "object" else Effect.BUCKET
    if method in {"GET", "HEAD"}:
        touches = Effect.NOTHING
    return Operation(f"Unknown{method.title()}", level, access, touches, is_plain_read=False)
