"""Which operations of S3 an OSS origin can carry out: those that it has too, under whatever name. All others are
refused before anything is sent, with the reason that docs/compatibility.md gives; the table there is checked against
this one.

The names are those of forebay.protocol.operation_table.
"""

from types import MappingProxyType
from typing import Final

from forebay.core.errors import S3Error

_AS_IT_IS: Final = "The same."
_CANNED: Final = "`private`, `public-read` and `public-read-write` alone; no document of grants."
_WRITTEN: Final = (
    "`If-None-Match: *` becomes `x-oss-forbid-overwrite`. Not: `If-Match`, grants, object lock, SSE-C, a redirect, "
    "an append at an offset."
)

CARRIED: Final = MappingProxyType(
    {
        "GetObject": "Not by `partNumber`. With `If-Range` the whole object comes.",
        "HeadObject": "Not by `partNumber`.",
        "PutObject": _WRITTEN,
        "PostObject": "As the PutObject that it asks for.",
        "CopyObject": _WRITTEN,
        "DeleteObject": "Not under a condition.",
        "DeleteObjects": "Not under conditions. OSS tells no errors of single keys.",
        "CreateMultipartUpload": _AS_IT_IS,
        "UploadPart": "At least 100 KB, but for the last.",
        "UploadPartCopy": _AS_IT_IS,
        "CompleteMultipartUpload": "`If-None-Match: *` becomes `x-oss-forbid-overwrite`.",
        "AbortMultipartUpload": _AS_IT_IS,
        "ListParts": _AS_IT_IS,
        "ListMultipartUploads": _AS_IT_IS,
        "ListObjects": _AS_IT_IS,
        "ListObjectsV2": _AS_IT_IS,
        "ListObjectVersions": _AS_IT_IS,
        "GetObjectAcl": "OSS's grant as S3's grants; `default` is told as the owner's alone.",
        "PutObjectAcl": _CANNED,
        "GetObjectTagging": _AS_IT_IS,
        "PutObjectTagging": _AS_IT_IS,
        "DeleteObjectTagging": _AS_IT_IS,
        "RestoreObject": "Days and tier.",
        "HeadBucket": "By a listing of one key: OSS has no request of that kind.",
        "CreateBucket": "In the endpoint's region.",
        "DeleteBucket": _AS_IT_IS,
        "GetBucketLocation": "Without `oss-` in front.",
        "GetBucketAcl": "OSS's grant as S3's grants.",
        "PutBucketAcl": _CANNED,
        "GetBucketTagging": _AS_IT_IS,
        "PutBucketTagging": _AS_IT_IS,
        "DeleteBucketTagging": _AS_IT_IS,
        "GetBucketVersioning": _AS_IT_IS,
        "PutBucketVersioning": "Without MFA delete.",
        "ListBuckets": "Without a filter by region.",
    }
)
"""Name to how far it goes."""

_LOCK: Final = "OSS retains whole buckets (WORM), not single objects."
_OWN_FORM: Final = "OSS has it in a form of its own: ask OSS itself."

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
        "SelectObjectContent": _OWN_FORM,
        "UpdateObjectEncryption": "OSS has no such request.",
        **dict.fromkeys(
            ("GetObjectAnnotation", "ListObjectAnnotations", "PutObjectAnnotation", "DeleteObjectAnnotation"),
            "OSS has no annotations.",
        ),
    }
)
"""Name to why not. Those of the catalogue that stand in neither table are configuration of a bucket: see WHY_NOT."""

WHY_NOT: Final = _OWN_FORM


def refusal_of(operation: str) -> str | None:
    """Why an OSS origin can't carry out `operation`; None if it can."""
    return None if operation in CARRIED else NOT_CARRIED.get(operation, WHY_NOT)


def check_carried(operation: str) -> None:
    """Raises S3Error NotImplemented for what an OSS origin can't carry out."""
    reason = refusal_of(operation)
    if reason is not None:
        raise S3Error("NotImplemented", f"{operation} can't be carried out by an OSS origin. {reason}")
