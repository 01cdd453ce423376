"""Copies at the server: one request, or, of a source that one request does not copy, parts of it in parallel.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/CopyingObjectsMPUapi.html
"""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from forebay_client.client_errors import InvalidRequest, ServiceUnavailable
from forebay_client.object_uploads import MAX_PARTS, PartUpload
from forebay_client.transport.object_request import ObjectRequest, SendRequest

if TYPE_CHECKING:
    from concurrent.futures import Executor

LARGEST_COPY: Final = 5 << 30
"""Bytes that one CopyObject copies, in S3 and OSS."""
COPY_PART: Final = 512 << 20
_KEPT: Final = ("content-type", "content-encoding", "content-language", "content-disposition", "cache-control")
_META: Final = ("x-amz-meta-", "x-oss-meta-")

Address = tuple[str, str]
"""Bucket and key."""


def copy_object(
    send: SendRequest,
    source: Address,
    target: Address,
    executor: "Executor",
    *,
    largest: int = LARGEST_COPY,
    part_size: int = COPY_PART,
) -> None:
    """Copies an object with its type and metadata. Raises ClientError."""
    try:
        response = send(ObjectRequest("PUT", *target, headers={"x-amz-copy-source": _source(source)}))
    except InvalidRequest:  # what a server says of a large source differs
        head = send(ObjectRequest("HEAD", *source))
        size = int(head.headers.get("content-length", "0"))
        if size <= largest:
            raise
        headers = {
            name.replace("x-oss-meta-", "x-amz-meta-"): value
            for name, value in head.headers.items()
            if name in _KEPT or name.startswith(_META)
        }
        _copy_in_parts(send, source, target, executor, size, max(part_size, -(-size // MAX_PARTS)), head.etag, headers)
        return
    if b"<Error>" in bytes(response.body[:1000]):  # the status was sent before the outcome was known
        raise ServiceUnavailable("the copy failed", bucket=target[0], key=target[1], status=200)


def _copy_in_parts(
    send: SendRequest,
    source: Address,
    target: Address,
    executor: "Executor",
    size: int,
    length: int,
    etag: str,
    headers: dict[str, str],
) -> None:
    upload = PartUpload(send, *target, headers)

    def copy_part(number: int) -> str:
        start = (number - 1) * length
        return upload.copy(number, part_source(source, start, min(size, start + length), etag))

    futures = [executor.submit(copy_part, number) for number in range(1, -(-size // length) + 1)]
    upload.complete(futures, size)


def part_source(source: Address, start: int, stop: int, etag: str) -> dict[str, str]:
    """The headers of an UploadPartCopy of these bytes of the version with this ETag."""
    return {
        "x-amz-copy-source": _source(source),
        "x-amz-copy-source-range": f"bytes={start}-{stop - 1}",
        "x-amz-copy-source-if-match": etag,
    }


def _source(source: Address) -> str:
    return f"/{quote(source[0])}/{quote(source[1])}"
