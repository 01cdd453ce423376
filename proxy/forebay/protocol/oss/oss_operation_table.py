"""Every operation of the OSS API: how it is recognised, which operation of S3 it becomes, and whether an OSS origin has
it.

Forebay speaks S3 inside. A row names the operation of forebay.protocol.operation_table that corresponds to one of OSS,
and so its permission and its effect; or the reason why there is none. The same rows are read in the other direction: an
OSS origin carries out exactly the operations of S3 that a row names. All others are refused before anything is sent,
with the reason in NOT_CARRIED or WHY_NOT. docs/oss.md has both tables and is checked against these rows:
change them together.

A client's operation is recognised by its level, its method and the query names it must have (`required`); `optional`
names belong to it. An unknown name is refused: OSS ignores a query name it does not know, but one that is newer than
this table may select another operation, and a PUT would then replace the object.

https://www.alibabacloud.com/help/en/oss/developer-reference/list-of-operations-by-function
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.operation_table import Level


class OssTreatment(Enum):
    """The treatment of a client's operation by Forebay, in the words of docs/oss.md."""

    CACHED = "cached"
    TRANSLATED = "translated"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class OssOperation:
    """One operation of the OSS API."""

    name: str
    level: Level
    method: str
    required: frozenset[str]
    optional: frozenset[str]
    s3: str
    """The operation of S3 that it becomes; empty where it is refused."""
    note: str
    """The extent of the translation, or the reason why there is none; shown to users."""
    copies: bool = False
    """Whether an x-oss-copy-source header selects it as well."""

    @property
    def has_document(self) -> bool:
        """Whether a successful response has a document."""
        if self.method == "GET":
            return self.s3 != "GetObject"
        return self.copies or (self.method == "POST" and self.s3 not in {"RestoreObject", "GetBatch"})

    @property
    def treatment(self) -> OssTreatment:
        """The treatment of the operation by Forebay."""
        if not self.s3:
            return OssTreatment.REFUSED
        return OssTreatment.CACHED if self.s3 in {"GetObject", "HeadObject"} else OssTreatment.TRANSLATED


# Names that qualify an operation but do not select one by themselves.
QUALIFIERS: Final = frozenset({"partNumber", "position", "inventoryId", "styleName", "comp", "endTime", "startTime"})

_OVERRIDES: Final = (
    "response-cache-control response-content-disposition response-content-encoding response-content-language "
    "response-content-type response-expires versionId"
)
_LISTING: Final = "delimiter encoding-type max-keys prefix"
_PLAIN: Final = "As S3's: one cache and one set of rules. What lies beyond the object is answered as OSS does."
_META: Final = "Length, ETag, time and CRC64 alone."
_FORBID: Final = "`x-oss-forbid-overwrite` becomes `If-None-Match: *`."
_FIRST: Final = "With `x-oss-forbid-overwrite` a HEAD request for the object goes to the origin first."
_NO_S3: Final = "S3 has no such thing."
_OTHER: Final = "S3 configures this in another way; use the origin directly."
_PROCESSED: Final = "The result is computed by OSS."
_VIDEO: Final = "Live channels are OSS's own."


def _row(
    name: str, level: Level, verb: str, s3: str, note: str, optional: str = "", *, copies: bool = False
) -> OssOperation:
    """`verb` is a method and the required query names: "GET ?acl". `s3` empty: refused."""
    method, _, query = verb.partition(" ?")
    required = frozenset(query.split("&")) if query else frozenset[str]()
    return OssOperation(name, level, method, required, frozenset(optional.split()), s3, note, copies)


def _objects() -> Iterator[OssOperation]:
    yield _row("GetObject", "object", "GET", "GetObject", _PLAIN, _OVERRIDES)
    yield _row("HeadObject", "object", "HEAD", "HeadObject", _PLAIN, _OVERRIDES)
    yield _row("GetObjectMeta", "object", "HEAD ?objectMeta", "HeadObject", _META, "versionId")
    yield _row("PutObject", "object", "PUT", "PutObject", f"Also without a length. {_FORBID}")
    yield _row("CopyObject", "object", "PUT", "CopyObject", _FIRST, copies=True)
    yield _row("DeleteObject", "object", "DELETE", "DeleteObject", "One version or the current one.", "versionId")
    yield _row("AppendObject", "object", "POST ?append&position", "", _NO_S3)
    yield _row("SealAppendObject", "object", "POST ?seal&position", "", _NO_S3)
    yield _row("RestoreObject", "object", "POST ?restore", "RestoreObject", "Days and tier.", "versionId")
    yield _row("CleanRestoredObject", "object", "POST ?cleanRestoredObject", "", _NO_S3)
    yield _row("ProcessObject or SelectObject", "object", "POST ?x-oss-process", "", _PROCESSED)
    yield _row("GetObject with x-oss-process", "object", "GET ?x-oss-process", "", _PROCESSED)
    yield _row("AsyncProcessObject", "object", "POST ?x-oss-async-process", "", _PROCESSED)
    yield _row("BatchGetObjects", "bucket", "POST ?batchGet", "", "A protocol of its own between OSS and its SDK.")

    yield _row("InitiateMultipartUpload", "object", "POST ?uploads", "CreateMultipartUpload", _FIRST, "sequential")
    why = "Those below 5 MiB are also spooled, to be joined: see below."
    yield _row("UploadPart", "object", "PUT ?partNumber&uploadId", "UploadPart", why)
    why = "A source of less than 5 MiB can't be joined, unless it is the last part."
    yield _row("UploadPartCopy", "object", "PUT ?partNumber&uploadId", "UploadPartCopy", why, copies=True)
    why = f"Small parts are joined into parts that S3 accepts. {_FIRST}"
    yield _row("CompleteMultipartUpload", "object", "POST ?uploadId", "CompleteMultipartUpload", why)
    yield _row("AbortMultipartUpload", "object", "DELETE ?uploadId", "AbortMultipartUpload", "What was kept is let go.")
    more = "encoding-type max-parts part-number-marker"
    why = "As the origin has them: until the completion, as they were uploaded."
    yield _row("ListParts", "object", "GET ?uploadId", "ListParts", why, more)

    yield _row("GetObjectAcl", "object", "GET ?acl", "GetObjectAcl", "The nearest of OSS's grants.", "versionId")
    yield _row("PutObjectAcl", "object", "PUT ?acl", "PutObjectAcl", "`default` becomes `private`.", "versionId")
    yield _row("PutSymlink", "object", "PUT ?symlink", "", _NO_S3)
    yield _row("GetSymlink", "object", "GET ?symlink", "", _NO_S3)
    for verb, method in (("Get", "GET"), ("Put", "PUT"), ("Delete", "DELETE")):
        name = f"{verb}ObjectTagging"
        yield _row(name, "object", f"{method} ?tagging", name, "The same document.", "versionId")

    yield _row("PutLiveChannel", "object", "PUT ?live", "", _VIDEO, "status")
    yield _row("GetLiveChannelInfo", "object", "GET ?live", "", _VIDEO, "comp")
    yield _row("DeleteLiveChannel", "object", "DELETE ?live", "", _VIDEO)
    yield _row("PostVodPlaylist", "object", "POST ?vod", "", _VIDEO, "startTime endTime")
    yield _row("GetVodPlaylist", "object", "GET ?vod", "", _VIDEO, "startTime endTime")


def _buckets() -> Iterator[OssOperation]:
    why = "As in S3."
    yield _row("GetBucket (ListObjects)", "bucket", "GET", "ListObjects", why, f"{_LISTING} marker")
    more = f"{_LISTING} continuation-token fetch-owner start-after"
    yield _row("ListObjectsV2", "bucket", "GET ?list-type", "ListObjectsV2", why, more)
    more = f"{_LISTING} key-marker version-id-marker"
    yield _row("ListObjectVersions", "bucket", "GET ?versions", "ListObjectVersions", why, more)
    more = "delimiter encoding-type key-marker max-uploads prefix upload-id-marker"
    yield _row("ListMultipartUploads", "bucket", "GET ?uploads", "ListMultipartUploads", why, more)
    why = "Deleted keys are listed; if none was deleted, the response is the first error."
    yield _row("DeleteMultipleObjects", "bucket", "POST ?delete", "DeleteObjects", why, "encoding-type")
    why = "A form signed OSS's way; a form signed S3's way is taken."
    yield _row("PostObject", "bucket", "POST", "", why)

    yield _row("PutBucket", "bucket", "PUT", "CreateBucket", "Storage class Standard alone.")
    yield _row("DeleteBucket", "bucket", "DELETE", "DeleteBucket", "It must be empty.")
    yield _row("HeadBucket", "bucket", "HEAD", "HeadBucket", "Whether it is there.")
    why = "Owner and ACL from S3's ACL, the date from the list of buckets; the endpoints are Forebay's."
    yield _row("GetBucketInfo", "bucket", "GET ?bucketInfo", "GetBucketAcl", why)
    yield _row("GetBucketLocation", "bucket", "GET ?location", "GetBucketLocation", "The origin's region.")
    yield _row("GetBucketStat", "bucket", "GET ?stat", "", _NO_S3)
    yield _row("GetBucketAcl", "bucket", "GET ?acl", "GetBucketAcl", "The nearest of OSS's grants.")
    yield _row("PutBucketAcl", "bucket", "PUT ?acl", "PutBucketAcl", "The canned ones, which S3 has too.")
    for verb, method in (("Get", "GET"), ("Put", "PUT"), ("Delete", "DELETE")):
        name = f"{verb}BucketTagging"
        yield _row(f"{verb}BucketTags", "bucket", f"{method} ?tagging", name, "The same document.")
    for verb, method in (("Get", "GET"), ("Put", "PUT")):
        name = f"{verb}BucketVersioning"
        yield _row(name, "bucket", f"{method} ?versioning", name, "The same document.")

    for query, noun, verbs in (
        ("lifecycle", "Lifecycle", "GET PUT DELETE"),
        ("logging", "Logging", "GET PUT DELETE"),
        ("website", "Website", "GET PUT DELETE"),
        ("policy", "Policy", "GET PUT DELETE"),
        ("policyStatus", "PolicyStatus", "GET"),
        ("encryption", "Encryption", "GET PUT DELETE"),
        ("cors", "Cors", "GET PUT DELETE"),
        ("requestPayment", "RequestPayment", "GET PUT"),
        ("replication", "Replication", "GET POST"),
        ("inventory&inventoryId", "Inventory", "GET PUT DELETE"),
        ("publicAccessBlock", "PublicAccessBlock", "GET PUT DELETE"),
        ("transferAcceleration", "TransferAcceleration", "GET PUT"),
    ):
        yield from _refused(query, f"Bucket{noun}", verbs, _OTHER)
    for query, noun, verbs in (
        ("referer", "BucketReferer", "GET PUT"),
        ("userDefinedLogFieldsConfig", "UserDefinedLogFieldsConfig", "GET PUT DELETE"),
        ("rtc", "BucketRTC", "PUT"),
        ("replicationLocation", "BucketReplicationLocation", "GET"),
        ("replicationProgress", "BucketReplicationProgress", "GET"),
        ("worm", "BucketWorm", "GET POST DELETE"),
        ("wormExtend", "BucketWormExtension", "POST"),
        ("wormId", "BucketWormCompletion", "POST"),
        ("accessmonitor", "BucketAccessMonitor", "GET PUT"),
        ("metaQuery", "MetaQuery", "GET POST"),
        ("resourceGroup", "BucketResourceGroup", "GET PUT"),
        ("cname", "Cname", "GET POST"),
        ("style", "Style", "GET PUT DELETE"),
        ("httpsConfig", "BucketHttpsConfig", "GET PUT"),
        ("redundancyTransition", "BucketDataRedundancyTransition", "GET POST DELETE"),
        ("accessPoint", "AccessPoint", "GET PUT DELETE"),
        ("accessPointPolicy", "AccessPointPolicy", "GET PUT DELETE"),
        ("bucketArchiveDirectRead", "BucketArchiveDirectRead", "GET PUT"),
        ("overwriteConfig", "BucketOverwriteConfig", "GET PUT DELETE"),
        ("qosInfo", "BucketQosInfo", "GET PUT DELETE"),
        ("asyncFetch", "AsyncFetchTask", "GET POST"),
    ):
        yield from _refused(query, noun, verbs, _NO_S3)
    yield _row("ListBucketInventory", "bucket", "GET ?inventory", "", _OTHER, "continuation-token")
    yield _row("ListLiveChannel", "bucket", "GET ?live", "", _VIDEO, "marker max-keys prefix")


_VERBS: Final = {"GET": "Get", "PUT": "Put", "POST": "Post", "DELETE": "Delete"}


def _refused(query: str, noun: str, methods: str, note: str) -> Iterator[OssOperation]:
    for method in methods.split():
        yield _row(f"{_VERBS[method]}{noun}", "bucket", f"{method} ?{query}", "", note)


def _service() -> Iterator[OssOperation]:
    why = "The buckets of the origin's account; needs list on everything."
    yield _row("GetService (ListBuckets)", "service", "GET", "ListBuckets", why, "marker max-keys prefix")
    yield _row("DescribeRegions", "service", "GET ?regions", "", "The regions are Alibaba's.")
    for query, name in (
        ("publicAccessBlock", "GetPublicAccessBlock"),
        ("accessPoint", "ListAccessPoints"),
        ("redundancyTransition", "ListUserDataRedundancyTransition"),
        ("resourcePool", "ListResourcePools"),
        ("qosInfo", "GetUserQosInfo"),
    ):
        yield _row(name, "service", f"GET ?{query}", "", _NO_S3)
    yield _row("WriteGetObjectResponse", "service", "POST ?x-oss-write-get-object-response", "", _NO_S3)


OSS_CATALOGUE: Final = (*_objects(), *_buckets(), *_service())

SELECTORS: Final = frozenset[str]().union(*(row.required for row in OSS_CATALOGUE)) - QUALIFIERS
"""The query names that select an operation, of the service, a bucket or an object."""

LISTINGS: Final = frozenset({"ListObjects", "ListObjectsV2", "ListObjectVersions", "ListMultipartUploads"})
"""The operations of S3 that list the content of a bucket."""
WITH_DOCUMENT: Final = frozenset(row.s3 for row in OSS_CATALOGUE if row.s3 and row.has_document)
"""The operations of S3, of those that OSS has too, whose successful response has a document."""

_ROWS: Final[dict[tuple[Level, str], list[OssOperation]]] = {}
for _each in sorted(OSS_CATALOGUE, key=lambda row: -len(row.required)):
    _ROWS.setdefault((_each.level, _each.method), []).append(_each)


GET_BATCH: Final = _row("GetBatch", "object", "POST", "GetBatch", "Forebay's own (forebay.request.batch).")
"""The operation of `.forebay/batch`, which is in no table of OSS's operations."""


def find_operation(level: Level, method: str, names: frozenset[str], copies: bool) -> OssOperation | None:
    """Returns the operation that a request selects, by its query names among others; None: there is none."""
    selectors = names & SELECTORS
    for row in _ROWS.get((level, method), ()):
        if row.required <= names and row.copies == copies and selectors <= row.required:
            return row
    return None


_CANNED: Final = "`private`, `public-read` and `public-read-write` alone; no document of grants."
_NO_OVERWRITE: Final = "`If-None-Match: *` becomes `x-oss-forbid-overwrite`."
_WRITTEN: Final = f"{_NO_OVERWRITE} Not: `If-Match`, grants, object lock, SSE-C, a redirect, an append at an offset."
_LIMITS: Final = {
    "GetObject": "Not by `partNumber`. With `If-Range` the whole object comes.",
    "HeadObject": "Not by `partNumber`.",
    "PutObject": _WRITTEN,
    "PostObject": "As the PutObject that it asks for.",
    "CopyObject": _WRITTEN,
    "DeleteObject": "Not under a condition.",
    "DeleteObjects": "Not with conditions. OSS reports no errors of single keys.",
    "UploadPart": "At least 100 KB, but for the last.",
    "CompleteMultipartUpload": _NO_OVERWRITE,
    "GetObjectAcl": "OSS's grant as S3's grants; `default` becomes a grant to the owner alone.",
    "PutObjectAcl": _CANNED,
    "RestoreObject": "Days and tier.",
    "HeadBucket": "By a listing of one key: OSS has no request of that kind.",
    "CreateBucket": "In the endpoint's region.",
    "GetBucketLocation": "Without `oss-` in front.",
    "GetBucketAcl": "OSS's grant as S3's grants.",
    "PutBucketAcl": _CANNED,
    "PutBucketVersioning": "Without MFA delete.",
    "ListBuckets": "Without a filter by region.",
}

CARRIED: Final = MappingProxyType(
    {name: _LIMITS.get(name, "The same.") for name in (*(row.s3 for row in OSS_CATALOGUE if row.s3), "PostObject")}
)
"""The operations of S3 that an OSS origin carries out, and how far."""

_LOCK: Final = "OSS retains whole buckets (WORM), not single objects."
WHY_NOT: Final = "OSS has it in a form of its own: ask OSS itself."
"""Why the operations in neither table, the configuration of buckets, are not carried out."""

NOT_CARRIED: Final = MappingProxyType(
    {
        "GetObjectAttributes": "OSS has no such request.",
        "GetObjectRetention": _LOCK,
        "PutObjectRetention": _LOCK,
        "GetObjectLegalHold": _LOCK,
        "PutObjectLegalHold": _LOCK,
        "GetObjectLockConfiguration": _LOCK,
        "PutObjectLockConfiguration": _LOCK,
        "GetObjectTorrent": "OSS has no torrents.",
        "SelectObjectContent": WHY_NOT,
        "UpdateObjectEncryption": "OSS has no such request.",
        **dict.fromkeys(
            ("GetObjectAnnotation", "ListObjectAnnotations", "PutObjectAnnotation", "DeleteObjectAnnotation"),
            "OSS has no annotations.",
        ),
    }
)
"""Operations of S3 that an OSS origin does not carry out, and why."""


def check_carried(operation: str) -> None:
    """Raises S3Error NotImplemented for an operation of S3 that an OSS origin can't carry out."""
    if operation not in CARRIED:
        reason = NOT_CARRIED.get(operation, WHY_NOT)
        raise S3Error("NotImplemented", f"{operation} can't be carried out by an OSS origin. {reason}")
