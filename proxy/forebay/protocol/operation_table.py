"""The table of all S3 operations: requests that match, permission, effect, and how Forebay handles it.

A row combines facts about S3 with Forebay's decision; forebay.protocol.operations finds the row of a request. The table
in docs/compatibility.md is written from these rows and checked against them: change both together.

A request matches a row by level, method and the query names that must be present (`required`). Names in `optional` may
be present and do not change the operation. A name that is `required` in some row, and is not merely a qualifier,
selects an operation.

`effect` is an upper bound of the changes of a success: an object invalidated in vain costs a fetch, an object cached
for too long is wrong. Therefore configuration that can remove or rewrite objects later (lifecycle, replication,
versioning, encryption) affects the whole bucket.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal["service", "bucket", "object"]


class Access(Enum):
    """The permission that an operation needs: on the object, or on the whole bucket or the listed prefix."""

    READ = "read"
    WRITE = "write"
    LIST = "list"
    DELETE = "delete"

    __hash__ = object.__hash__
    """The hash of the identity: each request looks a member up, and Enum's own hash is a function in Python."""


class Effect(Enum):
    """The keys that a successful operation changes, which are then invalidated."""

    NOTHING = "nothing"
    OBJECT = "object"
    LISTED_KEYS = "listed keys"
    """The keys in the body (DeleteObjects)."""
    BUCKET = "bucket"


class Treatment(Enum):
    """The treatment of an operation by Forebay, in the words of docs/compatibility.md."""

    CACHED = "cached"
    PASSED_ON = "passed on"
    INVALIDATES = "passed on, invalidates"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation of the S3 API."""

    name: str
    level: Level
    method: str
    required: frozenset[str]
    optional: frozenset[str]
    access: Access
    effect: Effect
    why: str
    """The reason for the treatment; shown to users."""
    cached: bool = False
    is_copy: bool = False
    """Whether an x-amz-copy-source header is required, too."""
    refused: bool = False

    @property
    def treatment(self) -> Treatment:
        """The treatment of the operation by Forebay."""
        if self.refused:
            return Treatment.REFUSED
        if self.cached:
            return Treatment.CACHED
        return Treatment.PASSED_ON if self.effect is Effect.NOTHING else Treatment.INVALIDATES


# Names that qualify an operation but do not select one: `?id=x` alone is not a configuration.
QUALIFIERS: Final = frozenset({"annotationName", "id", "partNumber", "select-type"})

_READ, _WRITE, _LIST, _DELETE = Access.READ, Access.WRITE, Access.LIST, Access.DELETE
_NOTHING, _OBJECT, _KEYS, _BUCKET = Effect.NOTHING, Effect.OBJECT, Effect.LISTED_KEYS, Effect.BUCKET

_PLAIN: Final = (
    "Whole or a single range, of the current version or by versionId, with response-* or without. With partNumber, "
    "SSE-C or another header that changes the answer: passed on."
)
_OVERRIDES: Final = (
    "partNumber response-cache-control response-content-disposition response-content-encoding "
    "response-content-language response-content-type response-expires versionId"
)
_LISTING: Final = "delimiter encoding-type max-keys prefix"
_ABOUT: Final = "About the object, not its bytes; not cached."
_HEADERS: Final = "May change the headers of a read."
_CONFIGURATION: Final = "Configuration of the bucket."
_REMOVES: Final = "May change what reads of the bucket return."
_UPLOAD: Final = "The object changes only when the upload is completed."


def _row(
    name: str, level: Level, verb: str, access: Access, effect: Effect, why: str, optional: str = "", **kind: bool
) -> OperationRow:
    """Returns a row. `verb`: the method and the required query names, as in "GET ?acl"."""
    method, _, query = verb.partition(" ?")
    required = frozenset(query.split("&")) if query else frozenset[str]()
    return OperationRow(name, level, method, required, frozenset(optional.split()), access, effect, why, **kind)


def _objects() -> Iterator[OperationRow]:
    yield _row("GetObject", "object", "GET", _READ, _NOTHING, _PLAIN, _OVERRIDES, cached=True)
    yield _row("HeadObject", "object", "HEAD", _READ, _NOTHING, _PLAIN, _OVERRIDES, cached=True)
    yield _row("PutObject", "object", "PUT", _WRITE, _OBJECT, "Also an append with x-amz-write-offset-bytes.")
    why = "The destination changes; the principal must be allowed to read the source."
    yield _row("CopyObject", "object", "PUT", _WRITE, _OBJECT, why, is_copy=True)
    yield _row("DeleteObject", "object", "DELETE", _DELETE, _OBJECT, "One version or the current one.", "versionId")
    why = "Directory buckets only; a move needs rights that a grant can't express yet."
    yield _row("RenameObject", "object", "PUT ?renameObject", _WRITE, _BUCKET, why, refused=True)

    yield _row("CreateMultipartUpload", "object", "POST ?uploads", _WRITE, _NOTHING, _UPLOAD)
    yield _row("UploadPart", "object", "PUT ?partNumber&uploadId", _WRITE, _NOTHING, _UPLOAD)
    why = f"{_UPLOAD} The principal must be allowed to read the source."
    yield _row("UploadPartCopy", "object", "PUT ?partNumber&uploadId", _WRITE, _NOTHING, why, is_copy=True)
    yield _row("CompleteMultipartUpload", "object", "POST ?uploadId", _WRITE, _OBJECT, "The object is replaced.")
    yield _row("AbortMultipartUpload", "object", "DELETE ?uploadId", _WRITE, _NOTHING, "The object stays as it is.")
    why = "An upload under way is its writers' business: needs write."
    yield _row(
        "ListParts", "object", "GET ?uploadId", _WRITE, _NOTHING, why, "encoding-type max-parts part-number-marker"
    )

    for name in ("Acl", "Attributes", "Retention", "Tagging", "Torrent"):
        yield _row(f"GetObject{name}", "object", f"GET ?{name.lower()}", _READ, _NOTHING, _ABOUT, "versionId")
    yield _row("GetObjectLegalHold", "object", "GET ?legal-hold", _READ, _NOTHING, _ABOUT, "versionId")
    for name in ("Acl", "Retention", "Tagging"):
        yield _row(f"PutObject{name}", "object", f"PUT ?{name.lower()}", _WRITE, _OBJECT, _HEADERS, "versionId")
    yield _row("PutObjectLegalHold", "object", "PUT ?legal-hold", _WRITE, _OBJECT, _HEADERS, "versionId")
    yield _row("UpdateObjectEncryption", "object", "PUT ?encryption", _WRITE, _OBJECT, _HEADERS, "versionId")
    yield _row("DeleteObjectTagging", "object", "DELETE ?tagging", _DELETE, _OBJECT, _HEADERS, "versionId")

    query, more = "annotation&annotationName", "annotation-prefix continuation-token max-annotation-results versionId"
    yield _row("GetObjectAnnotation", "object", f"GET ?{query}", _READ, _NOTHING, _ABOUT, "versionId")
    yield _row("ListObjectAnnotations", "object", "GET ?annotation", _READ, _NOTHING, _ABOUT, more)
    yield _row("PutObjectAnnotation", "object", f"PUT ?{query}", _WRITE, _OBJECT, _HEADERS, "versionId")
    yield _row("DeleteObjectAnnotation", "object", f"DELETE ?{query}", _DELETE, _OBJECT, _HEADERS, "versionId")

    yield _row("RestoreObject", "object", "POST ?restore", _WRITE, _OBJECT, _HEADERS, "versionId")
    why = "The answer is computed by the origin; needs read."
    yield _row("SelectObjectContent", "object", "POST ?select&select-type", _READ, _NOTHING, why)


def _buckets() -> Iterator[OperationRow]:
    why = "Asked of the origin, or answered from a snapshot where a rule sets `listing`; needs list on the prefix."
    yield _row("ListObjects", "bucket", "GET", _LIST, _NOTHING, why, f"{_LISTING} marker")
    more = f"{_LISTING} continuation-token fetch-owner start-after"
    yield _row("ListObjectsV2", "bucket", "GET ?list-type", _LIST, _NOTHING, why, more)
    why = "Always asked of the origin; needs list on the prefix."
    more = f"{_LISTING} key-marker version-id-marker"
    yield _row("ListObjectVersions", "bucket", "GET ?versions", _LIST, _NOTHING, why, more)
    more = "delimiter encoding-type key-marker max-uploads prefix upload-id-marker"
    yield _row("ListMultipartUploads", "bucket", "GET ?uploads", _LIST, _NOTHING, why, more)
    why = "Each key in the body needs delete, and each is forgotten. Below `.forebay/` it needs what its DELETE does."
    yield _row("DeleteObjects", "bucket", "POST ?delete", _DELETE, _KEYS, why)
    why = "A form with a signed policy; carried out as the PutObject that it asks for; needs write on its key."
    yield _row("PostObject", "bucket", "POST", _WRITE, _OBJECT, why)

    yield _row("HeadBucket", "bucket", "HEAD", _LIST, _NOTHING, _CONFIGURATION)
    yield _row("CreateBucket", "bucket", "PUT", _WRITE, _NOTHING, "A bucket that exists keeps its objects.")
    yield _row("DeleteBucket", "bucket", "DELETE", _DELETE, _BUCKET, "Everything in it is forgotten.")
    why = "It would hand out credentials of the origin."
    yield _row("CreateSession", "bucket", "GET ?session", _READ, _NOTHING, why, refused=True)
    why = "Only for functions behind S3 Object Lambda."
    yield _row("WriteGetObjectResponse", "bucket", "POST", _WRITE, _NOTHING, why, refused=True)

    # The query name, and the names of the operations that read, set and remove the configuration.
    for query, get, put, delete in (
        ("abac", "GetBucketAbac", "PutBucketAbac", ""),
        ("accelerate", "GetBucketAccelerateConfiguration", "PutBucketAccelerateConfiguration", ""),
        ("acl", "GetBucketAcl", "PutBucketAcl", ""),
        ("cors", "GetBucketCors", "PutBucketCors", "DeleteBucketCors"),
        ("location", "GetBucketLocation", "", ""),
        ("logging", "GetBucketLogging", "PutBucketLogging", ""),
        ("notification", "GetBucketNotificationConfiguration", "PutBucketNotificationConfiguration", ""),
        ("object-lock", "GetObjectLockConfiguration", "PutObjectLockConfiguration", ""),
        (
            "ownershipControls",
            "GetBucketOwnershipControls",
            "PutBucketOwnershipControls",
            "DeleteBucketOwnershipControls",
        ),
        ("policy", "GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy"),
        ("policyStatus", "GetBucketPolicyStatus", "", ""),
        ("publicAccessBlock", "GetPublicAccessBlock", "PutPublicAccessBlock", "DeletePublicAccessBlock"),
        ("requestPayment", "GetBucketRequestPayment", "PutBucketRequestPayment", ""),
        ("tagging", "GetBucketTagging", "PutBucketTagging", "DeleteBucketTagging"),
        ("website", "GetBucketWebsite", "PutBucketWebsite", "DeleteBucketWebsite"),
        ("metadataAnnotationTable", "", "UpdateBucketMetadataAnnotationTableConfiguration", ""),
        ("metadataInventoryTable", "", "UpdateBucketMetadataInventoryTableConfiguration", ""),
        ("metadataJournalTable", "", "UpdateBucketMetadataJournalTableConfiguration", ""),
    ):
        yield from _configuration(query, get, put, delete, _NOTHING, _CONFIGURATION)
    for query, get, put, delete in (
        ("encryption", "GetBucketEncryption", "PutBucketEncryption", "DeleteBucketEncryption"),
        ("lifecycle", "GetBucketLifecycleConfiguration", "PutBucketLifecycleConfiguration", "DeleteBucketLifecycle"),
        ("replication", "GetBucketReplication", "PutBucketReplication", "DeleteBucketReplication"),
        ("versioning", "GetBucketVersioning", "PutBucketVersioning", ""),
    ):
        yield from _configuration(query, get, put, delete, _BUCKET, _REMOVES)
    for query, noun in (
        ("analytics", "Analytics"),
        ("intelligent-tiering", "IntelligentTiering"),
        ("inventory", "Inventory"),
        ("metrics", "Metrics"),
    ):
        name = f"Bucket{noun}Configuration"
        yield from _configuration(f"{query}&id", f"Get{name}", f"Put{name}", f"Delete{name}", _NOTHING, _CONFIGURATION)
        yield _row(f"List{name}s", "bucket", f"GET ?{query}", _LIST, _NOTHING, _CONFIGURATION, "continuation-token")
    for query, name in (
        ("metadataConfiguration", "BucketMetadataConfiguration"),
        ("metadataTable", "BucketMetadataTableConfiguration"),
    ):
        yield from _configuration(query, f"Get{name}", "", f"Delete{name}", _NOTHING, _CONFIGURATION)
        yield _row(f"Create{name}", "bucket", f"POST ?{query}", _WRITE, _NOTHING, _CONFIGURATION)


def _configuration(query: str, get: str, put: str, delete: str, effect: Effect, why: str) -> Iterator[OperationRow]:
    """Yields the operations that read, set and remove one kind of configuration; "": there is no such operation."""
    if get:
        yield _row(get, "bucket", f"GET ?{query}", _LIST, _NOTHING, _CONFIGURATION)
    if put:
        yield _row(put, "bucket", f"PUT ?{query}", _WRITE, effect, why)
    if delete:
        yield _row(delete, "bucket", f"DELETE ?{query}", _DELETE, effect, why)


def _service() -> Iterator[OperationRow]:
    more = "bucket-region continuation-token max-buckets max-directory-buckets prefix"
    why = "The buckets of the origin's account; needs list on everything. Also ListDirectoryBuckets."
    yield _row("ListBuckets", "service", "GET", _LIST, _NOTHING, why, more)


OPERATIONS: Final = (*_objects(), *_buckets(), *_service())

SELECTORS: Final = frozenset[str]().union(*(row.required for row in OPERATIONS)) - QUALIFIERS
"""The query names that select an operation, on any level."""
