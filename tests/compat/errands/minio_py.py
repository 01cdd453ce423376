"""minio-py: Content-MD5, signed payloads, listings of the first version."""

import io
from datetime import timedelta
from importlib.metadata import version

from minio import Minio, S3Error
from minio.commonconfig import ComposeSource, CopySource
from minio.deleteobjects import DeleteObject

from compat.errand import LARGE, ODD, SMALL, Errand, equal, fetch, large_file, same

PARTS = 5 << 20


def main() -> None:
    errand = Errand.begin(version("minio"))
    client = Minio(errand.address, errand.access, errand.secret, secure=False)
    bucket = errand.bucket

    def read(key: str, start: int = 0, length: int = 0) -> bytes:
        answer = client.get_object(bucket, key, offset=start, length=length)
        try:
            content: bytes = answer.read()
            return content
        finally:
            answer.close()
            answer.release_conn()

    equal(client.bucket_exists(bucket), True)
    client.put_object(bucket, ODD, io.BytesIO(SMALL), len(SMALL), content_type="text/odd", metadata={"colour": "blue"})
    errand.did("put")

    for _ in range(2):
        same(read(ODD), SMALL)
    errand.again(ODD)
    found = client.stat_object(bucket, ODD)
    equal((found.size, found.content_type, found.metadata["x-amz-meta-colour"]), (len(SMALL), "text/odd", "blue"))
    errand.did("get")

    same(read(ODD, 1000, 1000), SMALL[1000:2000])
    errand.did("range")

    client.put_object(bucket, "large.bin", io.BytesIO(LARGE), -1, part_size=PARTS)
    client.fput_object(bucket, "filed.bin", str(large_file()), part_size=PARTS)
    sources = [ComposeSource(bucket, "large.bin"), ComposeSource(bucket, ODD)]
    client.compose_object(bucket, "composed.bin", sources)
    same(read("composed.bin"), LARGE + SMALL)
    for _ in range(2):
        same(read("large.bin"), LARGE)
    errand.again("large.bin")
    errand.did("parts up")

    names = [found.object_name for found in client.list_objects(bucket, recursive=True)]
    equal(sorted(names), sorted([ODD, "large.bin", "filed.bin", "composed.bin"]))
    equal([found.object_name for found in client.list_objects(bucket) if found.is_dir], ["odd/"])
    errand.did("list")

    client.copy_object(bucket, "copy.bin", CopySource(bucket, ODD))
    same(read("copy.bin"), SMALL)
    errand.did("copy")

    client.remove_object(bucket, "copy.bin")
    equal(list(client.remove_objects(bucket, [DeleteObject("filed.bin"), DeleteObject(ODD)])), [])
    for key in ("copy.bin", "filed.bin", ODD):
        try:
            read(key)
        except S3Error as error:
            equal(error.code, "NoSuchKey")
        else:
            raise AssertionError(f"{key} is still there")
    errand.did("delete")

    fetch(client.presigned_put_object(bucket, "presigned.bin", timedelta(minutes=5)), "PUT", SMALL)
    same(fetch(client.presigned_get_object(bucket, "presigned.bin", timedelta(minutes=5))), SMALL)
    errand.did("presigned")


main()
