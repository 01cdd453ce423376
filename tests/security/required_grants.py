"""The grant that each operation requires, as a second table: the access and its object.

An operation that comes anew in forebay.protocol.operation_table has no row here, and test_matrix fails until somebody
has
decided who may do it. `SAMPLES` has a request of each, made from its catalogue row.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from forebay.protocol.operation_table import OPERATIONS, OperationRow
from security.signers import Pairs

BUCKET: Final = "bucket"
KEY: Final = "key"
DELETE_BODY: Final = b"<Delete><Object><Key>key</Key></Object></Delete>"
COMPLETE_BODY: Final = (
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>"
)

_READ = """GetObject HeadObject GetObjectAcl GetObjectAttributes GetObjectRetention GetObjectTagging GetObjectTorrent
    GetObjectLegalHold GetObjectAnnotation ListObjectAnnotations SelectObjectContent"""
_WRITE = """PutObject CopyObject CreateMultipartUpload UploadPart UploadPartCopy CompleteMultipartUpload
    AbortMultipartUpload ListParts PutObjectAcl PutObjectRetention PutObjectTagging PutObjectLegalHold
    UpdateObjectEncryption PutObjectAnnotation RestoreObject CreateBucket PutBucketAbac
    PutBucketAccelerateConfiguration PutBucketAcl PutBucketCors PutBucketLogging PutBucketNotificationConfiguration
    PutObjectLockConfiguration PutBucketOwnershipControls PutBucketPolicy PutPublicAccessBlock PutBucketRequestPayment
    PutBucketTagging PutBucketWebsite UpdateBucketMetadataAnnotationTableConfiguration
    UpdateBucketMetadataInventoryTableConfiguration UpdateBucketMetadataJournalTableConfiguration PutBucketEncryption
    PutBucketLifecycleConfiguration PutBucketReplication PutBucketVersioning PutBucketAnalyticsConfiguration
    PutBucketIntelligentTieringConfiguration PutBucketInventoryConfiguration PutBucketMetricsConfiguration
    CreateBucketMetadataConfiguration CreateBucketMetadataTableConfiguration"""
_LIST = """ListObjects ListObjectsV2 ListObjectVersions ListMultipartUploads ListBuckets GetBucketAbac
    GetBucketAccelerateConfiguration GetBucketAcl GetBucketCors GetBucketLogging GetBucketNotificationConfiguration
    GetObjectLockConfiguration GetBucketOwnershipControls GetBucketPolicy GetBucketPolicyStatus GetPublicAccessBlock
    GetBucketRequestPayment GetBucketTagging GetBucketWebsite GetBucketEncryption GetBucketLifecycleConfiguration
    GetBucketReplication GetBucketVersioning GetBucketAnalyticsConfiguration GetBucketIntelligentTieringConfiguration
    GetBucketInventoryConfiguration GetBucketMetricsConfiguration ListBucketAnalyticsConfigurations
    ListBucketIntelligentTieringConfigurations ListBucketInventoryConfigurations ListBucketMetricsConfigurations
    GetBucketMetadataConfiguration GetBucketMetadataTableConfiguration"""
_DELETE = """DeleteObject DeleteObjects DeleteObjectTagging DeleteObjectAnnotation DeleteBucket DeleteBucketCors
    DeleteBucketOwnershipControls DeleteBucketPolicy DeletePublicAccessBlock DeleteBucketTagging DeleteBucketWebsite
    DeleteBucketEncryption DeleteBucketLifecycle DeleteBucketReplication DeleteBucketAnalyticsConfiguration
    DeleteBucketIntelligentTieringConfiguration DeleteBucketInventoryConfiguration DeleteBucketMetricsConfiguration
    DeleteBucketMetadataConfiguration DeleteBucketMetadataTableConfiguration"""
# SDKs ask these before they read, and any right in the bucket will do.
_ANY = "HeadBucket GetBucketLocation"
_NOBODY = "RenameObject CreateSession WriteGetObjectResponse"
# What the form's policy and its own fields say; see test_matrix.
_FORM = "PostObject"

REQUIRED_GRANTS: Final[Mapping[str, str]] = {
    name: need
    for need, names in (
        ("read", _READ),
        ("write", _WRITE),
        ("list", _LIST),
        ("delete", _DELETE),
        ("any", _ANY),
        ("nobody", _NOBODY),
        ("form", _FORM),
    )
    for name in names.split()
}
ACCESSES: Final = ("read", "write", "list", "delete")

_VALUES: Final = {"partNumber": "1", "uploadId": "u-1", "list-type": "2", "select-type": "2", "id": "x"}
_BODIES: Final = {"DeleteObjects": DELETE_BODY, "CompleteMultipartUpload": COMPLETE_BODY, "PutObject": b"content"}
FORM_TYPE: Final = "multipart/form-data; boundary=boundary"


class Sample(NamedTuple):
    """An honest request of one operation, but for who signs it."""

    name: str
    method: str
    target: str
    pairs: Pairs
    body: bytes


def _sample(row: OperationRow) -> Sample:
    path = {"service": "/", "bucket": f"/{BUCKET}", "object": f"/{BUCKET}/{KEY}"}[row.level]
    query = "&".join(f"{name}={_VALUES.get(name, '')}" for name in sorted(row.required))
    pairs = [("x-amz-copy-source", f"{BUCKET}/source")] if row.is_copy else []
    if row.name == "PostObject":
        pairs.append(("Content-Type", FORM_TYPE))
    return Sample(row.name, row.method, f"{path}?{query}" if query else path, pairs, _BODIES.get(row.name, b""))


SAMPLES: Final = tuple(_sample(row) for row in OPERATIONS)
"""Of every operation in the catalogue."""

UNKNOWN_OPERATIONS: Final = tuple(
    Sample(f"{method} {target}", method, target, (), b"")
    for method in (
        "GET",
        "HEAD",
        "PUT",
        "POST",
        "DELETE",
        "PATCH",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "PROPFIND",
        "get",
        "",
    )
    for target in ("/", f"/{BUCKET}", f"/{BUCKET}/{KEY}?frobnicate", f"/{BUCKET}/", "*", "/?Action=GetSessionToken")
)
"""Requests of no operation that anybody knows."""
