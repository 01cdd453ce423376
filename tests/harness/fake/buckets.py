"""The operations on a bucket that are not listings, and DeleteObjects."""

import re

from harness.fake import documents
from harness.fake.errors import Refusal
from harness.fake.payload import Payload
from harness.fake.responses import Answer, document
from harness.fake.s3_request import S3Request
from harness.fake.store import Store

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
MOST_DELETED = 1000


def create(store: Store, bucket: str) -> Answer:
    if not _NAME.fullmatch(bucket):
        raise Refusal("InvalidBucketName", "The specified bucket is not valid.", BucketName=bucket)
    if bucket in store.buckets:
        raise Refusal("BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded.")
    store.create_bucket(bucket)
    return Answer(200, (("Location", f"/{bucket}"),))


def delete(store: Store, bucket: str) -> Answer:
    if store.bucket(bucket).versions:
        raise Refusal("BucketNotEmpty", "The bucket you tried to delete is not empty", BucketName=bucket)
    del store.buckets[bucket]
    return Answer(204)


def delete_objects(store: Store, s3_request: S3Request, bucket: str, payload: Payload) -> Answer:
    """The batch. A key that isn't there is reported as deleted."""
    home = store.bucket(bucket)
    if not payload.checksums and "Content-MD5" not in s3_request.headers:
        raise Refusal("InvalidRequest", "Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
    tree = documents.parse(payload.body, "Delete")
    wanted = list(documents.children(tree, "Object"))
    if not wanted or len(wanted) > MOST_DELETED or not all("Key" in each for each in wanted):
        raise Refusal("MalformedXML", "Between 1 and 1000 keys")
    quiet = (tree.findtext("Quiet") or "").strip().lower() == "true"
    said: list[tuple[str, object]] = []
    for each in wanted:
        version = each.get("VersionId")
        marker = store.delete(bucket, each["Key"], version)
        one: list[tuple[str, object]] = [("Key", each["Key"])]
        one += [("VersionId", version)] if version else []
        if marker and home.versioning:
            one += [("DeleteMarker", True), ("DeleteMarkerVersionId", marker.version_id)]
        if not quiet:
            said.append(("Deleted", one))
    return document(documents.xml("DeleteResult", said))


def location(store: Store, bucket: str) -> Answer:
    store.bucket(bucket)
    return document(documents.xml("LocationConstraint", ""))


def versioning(store: Store, s3_request: S3Request, bucket: str, payload: Payload) -> Answer:
    home = store.bucket(bucket)
    if s3_request.method == "PUT":
        status = documents.parse(payload.body, "VersioningConfiguration").findtext("Status") or ""
        if status not in {"Enabled", "Suspended"}:
            raise Refusal("MalformedXML")
        home.versioning = status
        return Answer(200)
    return document(documents.xml("VersioningConfiguration", [("Status", home.versioning)] if home.versioning else ""))


def tagging(store: Store, s3_request: S3Request, bucket: str, payload: Payload) -> Answer:
    home = store.bucket(bucket)
    if s3_request.method == "GET":
        if not home.tags:
            raise Refusal("NoSuchTagSet", "The TagSet does not exist", BucketName=bucket)
        return document(documents.tagging(home.tags))
    home.tags = documents.tags_of(payload.body) if s3_request.method == "PUT" else ()
    return Answer(204)


def acl(store: Store, s3_request: S3Request, bucket: str) -> Answer:
    store.bucket(bucket)
    return document(documents.policy()) if s3_request.method == "GET" else Answer(200)


def cors(store: Store, s3_request: S3Request, bucket: str, payload: Payload) -> Answer:
    """The CORS configuration, kept as it came."""
    home = store.bucket(bucket)
    if s3_request.method == "GET":
        if not home.cors:
            raise Refusal("NoSuchCORSConfiguration", "The CORS configuration does not exist")
        return document(home.cors)
    home.cors = payload.body if s3_request.method == "PUT" else b""
    return Answer(200 if s3_request.method == "PUT" else 204)
