"""The grant that each OSS operation requires, as a second table: security.required_grants for the other dialect.

An operation that comes anew in forebay.protocol.oss.oss_operation_table has no row here, and test_matrix fails until
somebody has
decided who may do it. `OSS_SAMPLES` has a request of each, made from its catalogue row.
"""

from collections.abc import Mapping
from typing import Final

from forebay.protocol.oss.oss_operation_table import OSS_CATALOGUE, OssOperation
from security.required_grants import BUCKET, COMPLETE_BODY, DELETE_BODY, KEY, Sample

_READ: Final = "GetObject HeadObject GetObjectMeta GetObjectAcl GetObjectTagging"
_WRITE: Final = """PutObject CopyObject RestoreObject InitiateMultipartUpload UploadPart UploadPartCopy
    CompleteMultipartUpload AbortMultipartUpload ListParts PutObjectAcl PutObjectTagging PutBucket PutBucketAcl
    PutBucketTags PutBucketVersioning"""
_LIST: Final = """GetBucket(ListObjects) ListObjectsV2 ListObjectVersions ListMultipartUploads GetBucketInfo
    GetBucketAcl GetBucketTags GetBucketVersioning GetService(ListBuckets)"""
_DELETE: Final = "DeleteObject DeleteObjectTagging DeleteMultipleObjects DeleteBucket DeleteBucketTags"
# SDKs ask these before they read, and any right in the bucket will do.
_ANY: Final = "HeadBucket GetBucketLocation"

OSS_NEEDS: Final[Mapping[str, str]] = {
    name: need
    for need, names in (("read", _READ), ("write", _WRITE), ("list", _LIST), ("delete", _DELETE), ("any", _ANY))
    for name in names.split()
}
"""By the names of the catalogue, without their blanks. What is not here, nobody may do."""

_VALUES: Final = {"partNumber": "1", "uploadId": "u-1", "list-type": "2", "position": "0", "inventoryId": "x"}
_BODIES: Final = {"DeleteObjects": DELETE_BODY, "CompleteMultipartUpload": COMPLETE_BODY, "PutObject": b"content"}


def name_of(row: OssOperation) -> str:
    return row.name.replace(" ", "")


def _sample(row: OssOperation) -> Sample:
    path = {"service": "/", "bucket": f"/{BUCKET}/", "object": f"/{BUCKET}/{KEY}"}[row.level]
    query = "&".join(f"{name}={_VALUES.get(name, '')}" for name in sorted(row.required))
    pairs = [("x-oss-copy-source", f"/{BUCKET}/source")] if row.copies else []
    if row.name in {"PutObjectAcl", "PutBucketAcl"}:
        pairs.append(("x-oss-acl" if row.level == "bucket" else "x-oss-object-acl", "private"))
    return Sample(name_of(row), row.method, f"{path}?{query}" if query else path, pairs, _BODIES.get(row.s3, b""))


OSS_SAMPLES: Final = tuple(_sample(row) for row in OSS_CATALOGUE)
"""Of every operation in the catalogue."""

OSS_STRANGE: Final = tuple(
    Sample(f"{method} {target}", method, target, [("x-oss-meta-a", "b")], b"")
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "get")
    for target in ("/", f"/{BUCKET}", f"/{BUCKET}/{KEY}?frobnicate", f"/{BUCKET}/{KEY}?x-oss-process=style", "*")
)
"""Requests of no operation that anybody knows, in OSS's terms."""
