"""The table from operation to the function that performs it. No sockets, no faults, no signatures."""

from typing import assert_never

from harness.fake import buckets, listings, multipart, objects
from harness.fake.errors import Refusal
from harness.fake.payload import Payload
from harness.fake.responses import Answer, refused
from harness.fake.s3_request import Asked
from harness.fake.store import Store

_MOST_KEY_BYTES = 1024


def _service(store: Store, asked: Asked) -> Answer:
    if asked.operation == "ListBuckets":
        return listings.buckets(store)
    raise Refusal("NotImplemented", f"The fake does not know {asked.method} of this target.")


def _bucket(store: Store, asked: Asked, bucket: str, payload: Payload) -> Answer:
    match asked.operation:
        case "HeadBucket":
            store.bucket(bucket)
            return Answer(200, bodiless=True)
        case "ListObjects" | "ListObjectsV2":
            return listings.objects(store, asked, bucket)
        case "ListObjectVersions":
            return listings.versions(store, asked, bucket)
        case "ListMultipartUploads":
            return listings.uploads(store, asked, bucket)
        case "DeleteObjects":
            return buckets.delete_objects(store, asked, bucket, payload)
        case "CreateBucket":
            return buckets.create(store, bucket)
        case "DeleteBucket":
            return buckets.delete(store, bucket)
        case "GetBucketLocation":
            return buckets.location(store, bucket)
        case "GetBucketVersioning" | "PutBucketVersioning":
            return buckets.versioning(store, asked, bucket, payload)
        case "GetBucketTagging" | "PutBucketTagging" | "DeleteBucketTagging":
            return buckets.tagging(store, asked, bucket, payload)
        case "GetBucketAcl" | "PutBucketAcl":
            return buckets.acl(store, asked, bucket)
    raise Refusal("NotImplemented", f"The fake does not know {asked.method} of this target.")


def _object(store: Store, asked: Asked, bucket: str, key: str, payload: Payload, *, smallest: int) -> Answer:
    match asked.operation:
        case "GetObject" | "HeadObject":
            return objects.read(store, asked, bucket, key)
        case "PutObject":
            return objects.put(store, asked, bucket, key, payload)
        case "CopyObject":
            return objects.copy(store, asked, bucket, key)
        case "DeleteObject":
            return objects.delete(store, asked, bucket, key)
        case "GetObjectTagging" | "PutObjectTagging" | "DeleteObjectTagging":
            return objects.tagging(store, asked, bucket, key, payload)
        case "GetObjectAcl" | "PutObjectAcl":
            return objects.acl(store, asked, bucket, key)
        case "CreateMultipartUpload":
            return multipart.create(store, asked, bucket, key)
        case "UploadPart":
            return multipart.upload_part(store, asked, bucket, key, payload)
        case "UploadPartCopy":
            return multipart.upload_part_copy(store, asked, bucket, key)
        case "ListParts":
            return multipart.list_parts(store, asked, bucket, key)
        case "CompleteMultipartUpload":
            return multipart.complete(store, asked, bucket, key, payload, smallest=smallest)
        case "AbortMultipartUpload":
            return multipart.abort(store, asked, bucket, key)
    raise Refusal("NotImplemented", f"The fake does not know {asked.method} of this target.")


def perform(store: Store, asked: Asked, payload: Payload, smallest: int) -> Answer:
    """Does what was asked. A refusal becomes its answer, without a body for HEAD."""
    try:
        match asked.bucket, asked.key:
            case None, _:
                return _service(store, asked)
            case bucket, None:
                return _bucket(store, asked, bucket, payload)
            case bucket, key:
                store.bucket(bucket)
                if len(key.encode()) > _MOST_KEY_BYTES:
                    raise Refusal("KeyTooLongError", "Your key is too long")
                return _object(store, asked, bucket, key, payload, smallest=smallest)
            case unreachable:
                assert_never(unreachable)
    except Refusal as refusal:
        return refused(refusal, asked.raw_path, asked.method == "HEAD")
