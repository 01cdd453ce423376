"""The table from operation to the function that performs it. No sockets, no faults, no signatures."""

from typing import assert_never

from harness.fake import buckets, forms, listings, multipart, objects
from harness.fake.errors import Refusal
from harness.fake.payload import Payload
from harness.fake.responses import Answer, error_response
from harness.fake.s3_request import S3Request
from harness.fake.store import Store

_MOST_KEY_BYTES = 1024


def _service(store: Store, s3_request: S3Request) -> Answer:
    if s3_request.operation == "ListBuckets":
        return listings.buckets(store)
    raise Refusal("NotImplemented", f"The fake does not know {s3_request.method} of this target.")


def _bucket(store: Store, s3_request: S3Request, bucket: str, payload: Payload) -> Answer:
    match s3_request.operation:
        case "HeadBucket":
            store.bucket(bucket)
            return Answer(200, bodiless=True)
        case "ListObjects" | "ListObjectsV2":
            return listings.objects(store, s3_request, bucket)
        case "ListObjectVersions":
            return listings.versions(store, s3_request, bucket)
        case "ListMultipartUploads":
            return listings.uploads(store, s3_request, bucket)
        case "DeleteObjects":
            return buckets.delete_objects(store, s3_request, bucket, payload)
        case "PostObject":
            return forms.post(store, s3_request, bucket, payload)
        case "CreateBucket":
            return buckets.create(store, bucket)
        case "DeleteBucket":
            return buckets.delete(store, bucket)
        case "GetBucketLocation":
            return buckets.location(store, bucket)
        case "GetBucketVersioning" | "PutBucketVersioning":
            return buckets.versioning(store, s3_request, bucket, payload)
        case "GetBucketTagging" | "PutBucketTagging" | "DeleteBucketTagging":
            return buckets.tagging(store, s3_request, bucket, payload)
        case "GetBucketCors" | "PutBucketCors" | "DeleteBucketCors":
            return buckets.cors(store, s3_request, bucket, payload)
        case "GetBucketAcl" | "PutBucketAcl":
            return buckets.acl(store, s3_request, bucket)
    raise Refusal("NotImplemented", f"The fake does not know {s3_request.method} of this target.")


def _object(store: Store, s3_request: S3Request, bucket: str, key: str, payload: Payload, *, smallest: int) -> Answer:
    match s3_request.operation:
        case "GetObject" | "HeadObject":
            return objects.read(store, s3_request, bucket, key)
        case "PutObject":
            return objects.put(store, s3_request, bucket, key, payload)
        case "CopyObject":
            return objects.copy(store, s3_request, bucket, key)
        case "DeleteObject":
            return objects.delete(store, s3_request, bucket, key)
        case "GetObjectTagging" | "PutObjectTagging" | "DeleteObjectTagging":
            return objects.tagging(store, s3_request, bucket, key, payload)
        case "GetObjectAttributes":
            return objects.attributes(store, s3_request, bucket, key)
        case "GetObjectAcl" | "PutObjectAcl":
            return objects.acl(store, s3_request, bucket, key)
        case "CreateMultipartUpload":
            return multipart.create(store, s3_request, bucket, key)
        case "UploadPart":
            return multipart.upload_part(store, s3_request, bucket, key, payload)
        case "UploadPartCopy":
            return multipart.upload_part_copy(store, s3_request, bucket, key)
        case "ListParts":
            return multipart.list_parts(store, s3_request, bucket, key)
        case "CompleteMultipartUpload":
            return multipart.complete(store, s3_request, bucket, key, payload, smallest=smallest)
        case "AbortMultipartUpload":
            return multipart.abort(store, s3_request, bucket, key)
    raise Refusal("NotImplemented", f"The fake does not know {s3_request.method} of this target.")


def perform(store: Store, s3_request: S3Request, payload: Payload, smallest: int) -> Answer:
    """Does what was asked. A refusal becomes its answer, without a body for HEAD."""
    try:
        match s3_request.bucket, s3_request.key:
            case None, _:
                return _service(store, s3_request)
            case bucket, None:
                return _bucket(store, s3_request, bucket, payload)
            case bucket, key:
                store.bucket(bucket)
                if len(key.encode()) > _MOST_KEY_BYTES:
                    raise Refusal("KeyTooLongError", "Your key is too long")
                return _object(store, s3_request, bucket, key, payload, smallest=smallest)
            case unreachable:
                assert_never(unreachable)
    except Refusal as refusal:
        return error_response(refusal, s3_request.raw_path, s3_request.method == "HEAD")
