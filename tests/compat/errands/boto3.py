"""boto3 as it is after `pip install boto3`: nothing but the endpoint and path style is configured.

Also for what is built on it: the oldest boto3 that runs goes on the same errand.
"""

import io
import warnings
from typing import Any

from compat.errand import LARGE, ODD, SMALL, Errand, equal, fetch, large_file, same, small_file

warnings.filterwarnings("ignore")  # the oldest one's complaints about Python 3.11

import boto3  # noqa: E402 # what it imports complains
from boto3.s3.transfer import TransferConfig  # noqa: E402 # as above
from botocore.config import Config  # noqa: E402 # as above
from botocore.exceptions import ClientError  # noqa: E402 # as above

PARTS = 5 << 20


def main() -> None:
    errand = Errand.begin(boto3.__version__)
    client = boto3.client("s3", endpoint_url=errand.endpoint, config=Config(s3={"addressing_style": "path"}))
    bucket = errand.bucket
    _put_and_get(errand, client, bucket)
    _parts(errand, client, bucket)
    _list_copy_delete(errand, client, bucket)
    _presigned(errand, bucket)


def _put_and_get(errand: Errand, client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key=ODD, Body=SMALL, ContentType="text/odd", Metadata={"colour": "blue"})
    with small_file().open("rb") as file:
        client.put_object(Bucket=bucket, Key="small.bin", Body=file)
    client.put_object(Bucket=bucket, Key="empty", Body=b"")
    errand.did("put")

    for _ in range(2):
        found = client.get_object(Bucket=bucket, Key=ODD)
        same(found["Body"].read(), SMALL)
        equal(
            (found["ContentType"], found["Metadata"], found["ContentLength"]),
            ("text/odd", {"colour": "blue"}, len(SMALL)),
        )
        same(client.get_object(Bucket=bucket, Key="empty")["Body"].read(), b"")
    errand.again(ODD)
    head = client.head_object(Bucket=bucket, Key=ODD)
    equal((head["ETag"], head["ContentLength"]), (found["ETag"], len(SMALL)))
    unchanged = _code(client.get_object, Bucket=bucket, Key=ODD, IfNoneMatch=head["ETag"])
    equal(unchanged, "304")
    equal(_code(client.get_object, Bucket=bucket, Key=ODD, IfMatch='"other"'), "PreconditionFailed")
    errand.did("get")

    middle = client.get_object(Bucket=bucket, Key="small.bin", Range="bytes=1000-1999")
    equal(middle["ContentRange"], f"bytes 1000-1999/{len(SMALL)}")
    same(middle["Body"].read(), SMALL[1000:2000])
    same(client.get_object(Bucket=bucket, Key="small.bin", Range="bytes=-7")["Body"].read(), SMALL[-7:])
    equal(_code(client.get_object, Bucket=bucket, Key="small.bin", Range="bytes=200000-"), "InvalidRange")
    errand.did("range")


def _parts(errand: Errand, client: Any, bucket: str) -> None:
    transfer = TransferConfig(multipart_threshold=PARTS, multipart_chunksize=PARTS)
    client.upload_file(str(large_file()), bucket, "large.bin", Config=transfer, ExtraArgs={"Metadata": {"by": "parts"}})
    upload = client.create_multipart_upload(Bucket=bucket, Key="copied.bin")["UploadId"]
    where = {"Bucket": bucket, "Key": "copied.bin", "UploadId": upload}
    source = {"Bucket": bucket, "Key": "large.bin"}
    spans = ((0, PARTS), (PARTS, len(LARGE)))
    done = []
    for number, (start, stop) in enumerate(spans, 1):
        asked = f"bytes={start}-{stop - 1}"
        part = client.upload_part_copy(**where, PartNumber=number, CopySource=source, CopySourceRange=asked)
        done.append({"PartNumber": number, "ETag": part["CopyPartResult"]["ETag"]})
    listed = client.list_parts(**where)["Parts"]
    equal([part["Size"] for part in listed], [stop - start for start, stop in spans])
    client.complete_multipart_upload(**where, MultipartUpload={"Parts": done})
    equal(client.head_object(Bucket=bucket, Key="large.bin")["Metadata"], {"by": "parts"})
    given_up = client.create_multipart_upload(Bucket=bucket, Key="never")["UploadId"]
    client.abort_multipart_upload(Bucket=bucket, Key="never", UploadId=given_up)
    errand.did("parts up")

    for key in ("large.bin", "large.bin", "copied.bin"):
        into = io.BytesIO()
        client.download_fileobj(bucket, key, into, Config=transfer)
        same(into.getvalue(), LARGE)
    client.download_file(bucket, "large.bin", "back.bin", Config=transfer)
    errand.again("large.bin")
    errand.did("ranges down")


def _list_copy_delete(errand: Errand, client: Any, bucket: str) -> None:
    keys = [found["Key"] for found in client.list_objects_v2(Bucket=bucket)["Contents"]]
    equal(sorted(keys), sorted([ODD, "small.bin", "empty", "large.bin", "copied.bin"]))
    equal([found["Key"] for found in client.list_objects(Bucket=bucket, Prefix="odd/")["Contents"]], [ODD])
    folders = client.list_objects_v2(Bucket=bucket, Delimiter="/")["CommonPrefixes"]
    equal([folder["Prefix"] for folder in folders], ["odd/"])
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    equal([found["Key"] for page in pages for found in page["Contents"]], keys)
    errand.did("list")

    client.copy_object(Bucket=bucket, Key="small.bin", CopySource={"Bucket": bucket, "Key": "empty"})
    same(client.get_object(Bucket=bucket, Key="small.bin")["Body"].read(), b"")
    client.copy({"Bucket": bucket, "Key": ODD}, bucket, "small.bin")
    same(client.get_object(Bucket=bucket, Key="small.bin")["Body"].read(), SMALL)
    errand.did("copy")

    client.delete_object(Bucket=bucket, Key="small.bin")
    equal(_code(client.get_object, Bucket=bucket, Key="small.bin"), "NoSuchKey")
    gone = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": ODD}, {"Key": "empty"}, {"Key": "never"}]})
    equal(sorted(found["Key"] for found in gone["Deleted"]), sorted([ODD, "empty", "never"]))
    equal(_code(client.head_object, Bucket=bucket, Key=ODD), "404")
    errand.did("delete")


def _presigned(errand: Errand, bucket: str) -> None:
    where = {"Bucket": bucket, "Key": "presigned.bin"}
    # Without a signature_version, URLs for an endpoint of one's own are signed with Version 2.
    for version in ({}, {"signature_version": "s3v4"}):
        client = boto3.client(
            "s3", endpoint_url=errand.endpoint, config=Config(**version, s3={"addressing_style": "path"})
        )
        fetch(client.generate_presigned_url("put_object", Params=where), "PUT", SMALL)
        same(fetch(client.generate_presigned_url("get_object", Params=where)), SMALL)
    errand.did("presigned")


def _code(call: Any, **arguments: Any) -> str:
    """The error code of a call that must fail."""
    try:
        call(**arguments)
    except ClientError as error:
        code: str = error.response["Error"]["Code"]
        return code
    raise AssertionError(f"{call} succeeded with {arguments}")


main()
