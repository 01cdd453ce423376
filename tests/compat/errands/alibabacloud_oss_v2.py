"""alibabacloud-oss-v2, Alibaba's new Python SDK: Signature Version 4, CRC64 checks on, its own part sizes."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import alibabacloud_oss_v2 as oss

from compat.errand import LARGE, ODD, SMALL, Errand, equal, fetch, large_file, same, small_file

MEBIBYTE = 1 << 20


def main() -> None:
    errand = Errand.begin(oss.__version__)
    client = connect(errand, oss.credentials.StaticCredentialsProvider(errand.access, errand.secret))
    bucket = errand.bucket
    _put(errand, client, bucket)
    _get(errand, client, bucket)
    _range(errand, client, bucket)
    _parts(errand, client, bucket)
    _resume(errand, client, bucket)
    _download(errand, client, bucket)
    _list(errand, client, bucket)
    _copy(errand, client, bucket)
    _delete(errand, client, bucket)
    _presigned(errand, client, bucket)
    _token(errand, bucket)
    _refused(errand, client, bucket)


def connect(errand: Errand, credentials: Any) -> Any:
    """A client with nothing configured but where to go, and as whom."""
    config = oss.config.load_default()
    config.credentials_provider = credentials
    config.region = "cn-hangzhou"
    config.endpoint = errand.endpoint
    return oss.Client(config)


def _put(errand: Errand, client: Any, bucket: str) -> None:
    kind = {"content_type": "text/odd", "metadata": {"colour": "blue"}}
    answer = client.put_object(oss.PutObjectRequest(bucket, ODD, body=SMALL, **kind))
    equal((answer.etag, answer.hash_crc64), (answer.etag.upper(), crc(SMALL)))
    client.put_object_from_file(oss.PutObjectRequest(bucket, "small.bin"), str(small_file()))
    client.put_object(oss.PutObjectRequest(bucket, "empty", body=b""))
    again = oss.PutObjectRequest(bucket, "empty", body=b"x", forbid_overwrite=True)
    equal(failure(client.put_object, again), (409, "FileAlreadyExists"))
    equal(
        failure(
            client.put_object, oss.PutObjectRequest(bucket, "n", body=b"x", content_md5="1B2M2Y8AsgTpgAmY7PhCfg==")
        )[0],
        400,
    )
    errand.did("put")

    client.put_object(oss.PutObjectRequest(bucket, "streamed.bin", body=_pieces()))
    same(client.get_object(oss.GetObjectRequest(bucket, "streamed.bin")).body.content, LARGE)
    errand.did("stream")


def _get(errand: Errand, client: Any, bucket: str) -> None:
    for _ in range(2):
        found = client.get_object(oss.GetObjectRequest(bucket, ODD))
        same(found.body.content, SMALL)
        equal(found.hash_crc64, crc(SMALL))
        equal((found.content_type, found.metadata["colour"], found.content_length), ("text/odd", "blue", len(SMALL)))
        same(client.get_object(oss.GetObjectRequest(bucket, "empty")).body.content, b"")
    errand.again(ODD)
    client.get_object_to_file(oss.GetObjectRequest(bucket, "small.bin"), "back.bin")  # checks the CRC64
    equal(Path("back.bin").stat().st_size, len(SMALL))
    equal(failure(client.get_object, oss.GetObjectRequest(bucket, ODD, if_none_match=found.etag))[0], 304)
    other = oss.GetObjectRequest(bucket, ODD, if_match='"other"')
    equal(failure(client.get_object, other), (412, "PreconditionFailed"))
    equal(failure(client.get_object, oss.GetObjectRequest(bucket, "never")), (404, "NoSuchKey"))
    errand.did("get")

    head = client.head_object(oss.HeadObjectRequest(bucket, ODD))
    equal((head.etag, head.content_length, head.object_type), (found.etag, len(SMALL), "Normal"))
    meta = client.get_object_meta(oss.GetObjectMetaRequest(bucket, ODD))
    equal((meta.etag, meta.content_length, meta.last_modified), (found.etag, len(SMALL), head.last_modified))
    equal((client.is_object_exist(bucket, ODD), client.is_object_exist(bucket, "never")), (True, False))
    equal(failure(client.head_object, oss.HeadObjectRequest(bucket, "never")), (404, "NoSuchKey"))
    errand.did("head")


def _range(errand: Errand, client: Any, bucket: str) -> None:
    middle = client.get_object(oss.GetObjectRequest(bucket, "small.bin", range_header="bytes=1000-1999"))
    equal(middle.content_range, f"bytes 1000-1999/{len(SMALL)}")
    same(middle.body.content, SMALL[1000:2000])
    past = oss.GetObjectRequest(bucket, "small.bin", range_header="bytes=200000-", range_behavior="standard")
    equal(failure(client.get_object, past), (416, "InvalidRange"))
    with client.open_file(bucket, "small.bin") as file:
        file.seek(-7, os.SEEK_END)
        same(file.read(), SMALL[-7:])
        file.seek(50_000)
        same(file.read(10), SMALL[50_000:50_010])
        equal(file.tell(), 50_010)
    errand.did("range")


def _parts(errand: Errand, client: Any, bucket: str) -> None:
    uploader = client.uploader()
    request = oss.PutObjectRequest(bucket, "large.bin", metadata={"by": "parts"})
    uploader.upload_file(request, str(large_file()))
    equal(client.head_object(oss.HeadObjectRequest(bucket, "large.bin")).metadata["by"], "parts")
    with large_file().open("rb") as file:
        uploader.upload_from(
            oss.PutObjectRequest(bucket, "little-parts.bin"), file, part_size=200 << 10, parallel_num=4
        )
    whole = client.get_object(oss.GetObjectRequest(bucket, "little-parts.bin"))
    same(whole.body.content, LARGE)
    equal(whole.hash_crc64, crc(LARGE))

    where = {"bucket": bucket, "key": "copied-parts.bin"}
    where["upload_id"] = client.initiate_multipart_upload(oss.InitiateMultipartUploadRequest(**where)).upload_id
    done = []
    for number, (start, stop) in enumerate(((0, 5 * MEBIBYTE), (5 * MEBIBYTE, len(LARGE))), 1):
        request = oss.UploadPartCopyRequest(
            **where, part_number=number, source_key="large.bin", source_range=f"bytes={start}-{stop - 1}"
        )
        done.append(oss.UploadPart(part_number=number, etag=client.upload_part_copy(request).etag))
    pages = client.list_parts_paginator().iter_page(oss.ListPartsRequest(**where, max_parts=1))
    equal([part.size for page in pages for part in page.parts], [5 * MEBIBYTE, len(LARGE) - 5 * MEBIBYTE])
    uploads = client.list_multipart_uploads_paginator().iter_page(oss.ListMultipartUploadsRequest(bucket))
    equal([found.key for page in uploads for found in page.uploads or []], ["copied-parts.bin"])
    client.complete_multipart_upload(
        oss.CompleteMultipartUploadRequest(**where, complete_multipart_upload=oss.CompleteMultipartUpload(parts=done))
    )
    same(client.get_object(oss.GetObjectRequest(bucket, "copied-parts.bin")).body.content, LARGE)
    errand.did("parts up")


def _resume(errand: Errand, client: Any, bucket: str) -> None:
    """An upload whose source fails half way, and goes on from its checkpoint with the parts that are there."""
    uploader = client.uploader(enable_checkpoint=True, checkpoint_dir=".", part_size=MEBIBYTE, parallel_num=1)
    request = oss.PutObjectRequest(bucket, "resumed.bin")

    def until_half(_step: int, done: int, _of: int) -> None:
        if done > len(LARGE) // 2:
            raise InterruptedError

    try:
        request.progress_fn = until_half
        uploader.upload_file(request, str(large_file()))
    except InterruptedError:
        pass
    else:
        raise AssertionError("the upload was not interrupted")
    went_on: list[int] = []
    request.progress_fn = lambda _step, done, _of: went_on.append(done)
    equal(uploader.upload_file(request, str(large_file())).hash_crc64, crc(LARGE))
    equal(went_on[0], 8 * MEBIBYTE)
    same(client.get_object(oss.GetObjectRequest(bucket, "resumed.bin")).body.content, LARGE)
    errand.did("resume")


def _download(errand: Errand, client: Any, bucket: str) -> None:
    downloader = client.downloader()
    for key in ("large.bin", "large.bin", "resumed.bin", "streamed.bin"):
        downloader.download_file(oss.GetObjectRequest(bucket, key), "large-back.bin", part_size=3 * MEBIBYTE)
        same(Path("large-back.bin").read_bytes(), LARGE)
    options = {"enable_prefetch": True, "prefetch_threshold": MEBIBYTE, "chunk_size": MEBIBYTE, "block_size": 65536}
    with client.open_file(bucket, "large.bin", **options) as read_ahead:
        same(read_ahead.read(), LARGE)
    errand.did("ranges down")


def _list(errand: Errand, client: Any, bucket: str) -> None:
    keys = sorted(
        [ODD, "small.bin", "empty", "streamed.bin", "large.bin", "little-parts.bin", "copied-parts.bin", "resumed.bin"]
    )
    one = client.list_objects(oss.ListObjectsRequest(bucket, prefix="odd/"))
    equal([(found.key, found.size, found.object_type) for found in one.contents], [(ODD, len(SMALL), "Normal")])
    pages = client.list_objects_paginator().iter_page(oss.ListObjectsRequest(bucket, max_keys=3))
    equal([found.key for page in pages for found in page.contents], keys)
    pages = client.list_objects_v2_paginator().iter_page(oss.ListObjectsV2Request(bucket, max_keys=3))
    equal([found.key for page in pages for found in page.contents], keys)
    rest = client.list_objects_v2(oss.ListObjectsV2Request(bucket, start_after=keys[1], fetch_owner=True))
    equal([found.key for found in rest.contents], keys[2:])
    folders = client.list_objects_v2(oss.ListObjectsV2Request(bucket, delimiter="/"))
    equal([found.prefix for found in folders.common_prefixes], ["odd/"])
    pages = client.list_buckets_paginator().iter_page(oss.ListBucketsRequest())
    equal(bucket in [found.name for page in pages for found in page.buckets], True)
    equal(client.get_bucket_info(oss.GetBucketInfoRequest(bucket)).bucket_info.name, bucket)
    equal(client.is_bucket_exist(bucket), True)
    equal(client.is_bucket_exist("there-is-none"), False)
    errand.did("list")


def _copy(errand: Errand, client: Any, bucket: str) -> None:
    client.copy_object(oss.CopyObjectRequest(bucket, "small.bin", source_key="empty"))
    same(client.get_object(oss.GetObjectRequest(bucket, "small.bin")).body.content, b"")
    client.copy_object(oss.CopyObjectRequest(bucket, "small.bin", source_bucket=bucket, source_key=ODD))
    copied = client.get_object(oss.GetObjectRequest(bucket, "small.bin"))
    same(copied.body.content, SMALL)
    equal((copied.content_type, copied.metadata["colour"]), ("text/odd", "blue"))
    errand.did("copy")


def _delete(errand: Errand, client: Any, bucket: str) -> None:
    client.delete_object(oss.DeleteObjectRequest(bucket, "small.bin"))
    equal(failure(client.get_object, oss.GetObjectRequest(bucket, "small.bin")), (404, "NoSuchKey"))
    names = [ODD, "empty", "never"]
    gone = client.delete_multiple_objects(
        oss.DeleteMultipleObjectsRequest(bucket, objects=[oss.DeleteObject(key=name) for name in names])
    )
    equal(sorted(found.key for found in gone.deleted_objects), sorted(names))
    equal(client.is_object_exist(bucket, ODD), False)
    errand.did("delete")


def _presigned(errand: Errand, client: Any, bucket: str) -> None:
    key = "signed/a b+c.bin"
    up = client.presign(oss.PutObjectRequest(bucket, key, content_type="text/odd"), expires=timedelta(minutes=1))
    fetch(up.url, up.method, SMALL, up.signed_headers)
    down = client.presign(oss.GetObjectRequest(bucket, key), expires=timedelta(minutes=1))
    same(fetch(down.url, down.method, headers=down.signed_headers), SMALL)
    errand.did("presigned")


def _token(errand: Errand, bucket: str) -> None:
    token = os.environ["ERRAND_TOKEN"]
    access, secret = os.environ["ERRAND_TOKEN_ACCESS"], os.environ["ERRAND_TOKEN_SECRET"]
    client = connect(errand, oss.credentials.StaticCredentialsProvider(access, secret, token))
    client.put_object(oss.PutObjectRequest(bucket, "token.bin", body=SMALL))
    same(client.get_object(oss.GetObjectRequest(bucket, "token.bin")).body.content, SMALL)
    other = connect(errand, oss.credentials.StaticCredentialsProvider(access, secret, token + "x"))
    equal(failure(other.get_object, oss.GetObjectRequest(bucket, "token.bin"))[0], 403)
    errand.did("token")


def _refused(errand: Errand, client: Any, bucket: str) -> None:
    """What an S3 origin has no words for is refused as such, and nothing is written."""
    equal(
        failure(client.append_object, oss.AppendObjectRequest(bucket, "appended", 0, body=SMALL)),
        (501, "NotImplemented"),
    )
    equal(client.is_object_exist(bucket, "appended"), False)
    foreign = connect(errand, oss.credentials.StaticCredentialsProvider(errand.access, "wrong"))
    equal(failure(foreign.get_object, oss.GetObjectRequest(bucket, "token.bin")), (403, "SignatureDoesNotMatch"))
    errand.did("refused")


def _pieces() -> Iterator[bytes]:
    """LARGE, of a length that nobody knows before its end."""
    for start in range(0, len(LARGE), 700_001):
        yield LARGE[start : start + 700_001]


def crc(content: bytes) -> str:
    """As the SDK counts it. Where Forebay says nothing, the SDK compares nothing: so that it does is looked at here."""
    counted = oss.crc.Crc64(0)
    counted.write(content)
    return str(counted.sum64())


def failure(call: Any, request: Any) -> tuple[int, str]:
    """Status and code of a call that must fail."""
    try:
        call(request)
    except oss.exceptions.OperationError as error:
        cause = error.unwrap()
        return cause.status_code, cause.code
    raise AssertionError(f"{call} succeeded with {request}")


main()
