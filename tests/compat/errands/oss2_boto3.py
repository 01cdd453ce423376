"""oss2 and boto3, each as it is installed, of one bucket: two dialects, one cache.

Forebay says of each answer where it came from (x-forebay-cache), so that a hit is seen by the client itself.
"""

from typing import Any

import boto3
import oss2
from botocore.config import Config

from compat.errand import LARGE, ODD, SMALL, Errand, equal, same


def main() -> None:
    errand = Errand.begin(oss2.__version__)
    s3 = boto3.client("s3", endpoint_url=errand.endpoint, config=Config(s3={"addressing_style": "path"}))
    oss = oss2.Bucket(oss2.AuthV4(errand.access, errand.secret), errand.endpoint, errand.bucket, region="cn-hangzhou")
    _hits(errand, s3, oss)
    _listings(errand, s3, oss)
    _writes(errand, s3, oss)


def _hits(errand: Errand, s3: Any, oss: Any) -> None:
    for key, content in ((ODD, SMALL), ("large.bin", LARGE)):
        s3.put_object(Bucket=errand.bucket, Key=key, Body=content, Metadata={"colour": "blue"}, ContentType="text/odd")
        same(s3.get_object(Bucket=errand.bucket, Key=key)["Body"].read(), content)  # cold
        found = oss.get_object(key)
        same(found.read(), content)
        equal(_cached(found.headers), True)
        equal((found.content_type, found.headers["x-oss-meta-colour"]), ("text/odd", "blue"))
        equal(
            oss.head_object(key).etag.lower(), s3.head_object(Bucket=errand.bucket, Key=key)["ETag"].strip('"').lower()
        )
        errand.again(key)

        oss.put_object(f"oss/{key}", content, headers={"x-oss-meta-colour": "red", "Content-Type": "text/odd"})
        same(oss.get_object(f"oss/{key}").read(), content)  # cold
        answer = s3.get_object(Bucket=errand.bucket, Key=f"oss/{key}")
        same(answer["Body"].read(), content)
        equal(_cached(answer["ResponseMetadata"]["HTTPHeaders"]), True)
        equal((answer["ContentType"], answer["Metadata"]), ("text/odd", {"colour": "red"}))
        errand.again(f"oss/{key}")
    # Ranges are of the same blocks, and conditions are of the same ETag, whatever its case.
    part = oss.get_object("large.bin", byte_range=(5_000_000, 5_000_999))
    same(part.read(), LARGE[5_000_000:5_001_000])
    equal(_cached(part.headers), True)
    same(s3.get_object(Bucket=errand.bucket, Key=ODD, IfMatch=oss.head_object(ODD).etag)["Body"].read(), SMALL)
    etag = s3.head_object(Bucket=errand.bucket, Key=ODD)["ETag"]
    same(oss.get_object(ODD, headers={"If-Match": etag}).read(), SMALL)
    errand.did("get")


def _listings(errand: Errand, s3: Any, oss: Any) -> None:
    ours = [(found.key, found.size) for found in oss2.ObjectIterator(oss, max_keys=2)]
    theirs = [(found["Key"], found["Size"]) for found in s3.list_objects_v2(Bucket=errand.bucket)["Contents"]]
    equal(ours, theirs)
    errand.did("list")


def _writes(errand: Errand, s3: Any, oss: Any) -> None:
    """What is cached for one dialect is no longer believed when the other has written, in whatever way it wrote."""
    bucket, contents = errand.bucket, [SMALL[number:] for number in range(1, 6)]

    def both(key: str, content: bytes | None) -> None:
        if content is None:
            equal(oss.object_exists(key), False)
            equal("Contents" in s3.list_objects_v2(Bucket=bucket, Prefix=key), False)
            return
        for _ in range(2):
            same(oss.get_object(key).read(), content)
            same(s3.get_object(Bucket=bucket, Key=key)["Body"].read(), content)

    oss.put_object("seen.bin", contents[0])
    both("seen.bin", contents[0])
    s3.put_object(Bucket=bucket, Key="seen.bin", Body=contents[1])
    both("seen.bin", contents[1])
    oss.put_object("seen.bin", contents[2])
    both("seen.bin", contents[2])
    s3.copy_object(Bucket=bucket, Key="seen.bin", CopySource={"Bucket": bucket, "Key": ODD})
    both("seen.bin", SMALL)
    oss.copy_object(bucket, "large.bin", "seen.bin")
    both("seen.bin", LARGE)
    upload = oss.init_multipart_upload("seen.bin").upload_id
    parts = [
        oss2.models.PartInfo(number, oss.upload_part("seen.bin", upload, number, content).etag)
        for number, content in enumerate((bytes(200 << 10), contents[3]), 1)
    ]
    oss.complete_multipart_upload("seen.bin", upload, parts)
    both("seen.bin", bytes(200 << 10) + contents[3])
    s3.delete_object(Bucket=bucket, Key="seen.bin")
    both("seen.bin", None)
    s3.put_object(Bucket=bucket, Key="seen.bin", Body=contents[4])
    both("seen.bin", contents[4])
    oss.batch_delete_objects(["seen.bin"])
    both("seen.bin", None)
    errand.did("across")


def _cached(headers: Any) -> bool:
    return str(headers["x-forebay-cache"]).startswith("hit")


main()
