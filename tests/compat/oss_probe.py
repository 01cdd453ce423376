"""What the vendor's oss2, with its checks on, finds at an endpoint of OSS, as one JSON document: the same at any that
is as OSS is. Run by test_oss_stand_in.py, in the environment that oss2 is installed in.

    ERRAND_ENDPOINT, ERRAND_BUCKET, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import oss2

DATA = Random(1).randbytes(300_000)
LARGE = Random(2).randbytes(450_000)
KIB = 1 << 10


def outcome(call: Callable[..., Any], *given: Any, **named: Any) -> list[Any]:
    """What an error is, as oss2 tells it apart."""
    try:
        call(*given, **named)
    except oss2.exceptions.OssError as error:
        return [type(error).__name__, error.status, error.code]
    return ["no error"]


def objects(bucket: Any, found: dict[str, Any]) -> None:
    headers = {"x-oss-meta-colour": "blue", "x-oss-storage-class": "IA", "x-oss-object-acl": "default"}
    put = bucket.put_object("a b/ü+1", DATA, headers=headers)
    got = bucket.get_object("a b/ü+1")
    found["get"] = [got.read() == DATA, put.etag, put.crc, got.server_crc, got.object_type]
    found["headers"] = [got.headers.get(name) for name in ("x-oss-meta-colour", "x-oss-storage-class", "ETag")]
    ranged = bucket.get_object("a b/ü+1", byte_range=(10, 19))
    found["range"] = [ranged.status, ranged.content_range, ranged.read() == DATA[10:20]]
    beyond = bucket.get_object("a b/ü+1", byte_range=(10, 19_999_999))
    found["beyond"] = [beyond.status, len(beyond.read())]
    head = bucket.head_object("a b/ü+1")
    found["head"] = [head.etag, head.content_length, head.object_type, head.headers.get("x-oss-hash-crc64ecma")]
    found["meta"] = bucket.get_object_meta("a b/ü+1").etag
    found["absent"] = [outcome(bucket.get_object, "nope"), outcome(bucket.head_object, "nope")]
    found["forbidden"] = outcome(bucket.put_object, "a b/ü+1", b"", headers={"x-oss-forbid-overwrite": "true"})
    bucket.copy_object(bucket.bucket_name, "a b/ü+1", "copy", headers={"x-oss-copy-source-if-match": head.etag})
    other = {"x-oss-copy-source-if-match": "0" * 32}
    found["copy"] = [
        bucket.head_object("copy").etag,
        outcome(bucket.copy_object, bucket.bucket_name, "copy", "more", headers=other),
    ]
    rule = oss2.models.TaggingRule()
    rule.add("k", "v w")
    bucket.put_object_tagging("copy", oss2.models.Tagging(rule))
    found["tags"] = bucket.get_object_tagging("copy").tag_set.tagging_rule
    bucket.put_object_acl("copy", "default")
    found["acl"] = [bucket.get_object_acl("copy").acl, bucket.get_bucket_acl().acl]


def parts(bucket: Any, found: dict[str, Any]) -> None:
    large, back = Path("large"), Path("back")
    large.write_bytes(LARGE)
    oss2.resumable_upload(bucket, "large", str(large), multipart_threshold=100 * KIB, part_size=150 * KIB)
    head = bucket.head_object("large")
    found["uploaded"] = [head.etag, head.object_type, head.headers.get("x-oss-hash-crc64ecma")]
    oss2.resumable_download(bucket, "large", str(back), multiget_threshold=100 * KIB, part_size=100 * KIB)
    found["downloaded"] = back.read_bytes() == LARGE
    upload = bucket.init_multipart_upload("made").upload_id
    bucket.upload_part("made", upload, 1, DATA)
    bucket.upload_part_copy(bucket.bucket_name, "large", (0, 199_999), "made", upload, 2)
    listed = bucket.list_parts("made", upload).parts
    found["parts"] = [[each.part_number, each.etag, each.size] for each in listed]
    found["uploads"] = [each.key for each in bucket.list_multipart_uploads().upload_list]
    made = bucket.complete_multipart_upload("made", upload, listed)
    found["made"] = [made.etag, made.crc, bucket.get_object("made").read() == DATA + LARGE[:200_000]]
    aborted = bucket.init_multipart_upload("made").upload_id
    bucket.abort_multipart_upload("made", aborted)
    found["aborted"] = outcome(bucket.upload_part, "made", aborted, 1, b"x")


def listings(bucket: Any, found: dict[str, Any]) -> None:
    for number in range(5):
        bucket.put_object(f"it/{number}", b"x")
    first = bucket.list_objects_v2(prefix="a b/").object_list
    found["listed"] = [[each.key, each.etag, each.type, each.size, each.storage_class] for each in first]
    found["rolled"] = bucket.list_objects(delimiter="/").prefix_list
    found["pages"] = [
        [each.key for each in oss2.ObjectIterator(bucket, prefix="it/", max_keys=2)],
        [each.key for each in oss2.ObjectIteratorV2(bucket, prefix="it/", max_keys=2)],
    ]
    found["deleted"] = bucket.batch_delete_objects(["copy", "it/0", "never was"]).deleted_keys
    found["location"] = bucket.get_bucket_location().location
    found["full"] = outcome(bucket.delete_bucket)


def main() -> None:
    credentials = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    auth, region = oss2.AuthV4(*credentials), os.environ["AWS_REGION"]
    endpoint, name = os.environ["ERRAND_ENDPOINT"], os.environ["ERRAND_BUCKET"]
    bucket = oss2.Bucket(auth, endpoint, name, region=region)
    bucket.create_bucket()
    found: dict[str, Any] = {}
    objects(bucket, found)
    parts(bucket, found)
    listings(bucket, found)
    elsewhere = oss2.Bucket(auth, endpoint, "no-such-bucket", region=region)
    found["no bucket"] = [outcome(elsewhere.get_object, "x"), outcome(elsewhere.head_object, "x")]
    sys.stdout.write(json.dumps(found))


main()
