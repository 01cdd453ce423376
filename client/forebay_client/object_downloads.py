"""Downloads: one GET or HEAD, of a whole object or of a range, whatever form the server answers in.

What is returned is read-only in every case, as it must be where it lies in Forebay's memory: a program that writes into
it would fail only beside a Forebay.

Ranges are those of slices: an `end` behind the object's is the object's. https://www.rfc-editor.org/rfc/rfc9110#section-14
"""

from typing import TYPE_CHECKING, Final

from forebay_client.batch.archive_member import read_member
from forebay_client.client_errors import ClientError, RangeNotSatisfiable
from forebay_client.objects import BatchKey, ObjectInfo, bytes_to_fill, end_of, index_of
from forebay_client.transport.body_checks import content_range
from forebay_client.transport.error_document import corrupt_body
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse, SendRequest

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_META: Final = ("x-amz-meta-", "x-oss-meta-")


def read_object(send: SendRequest, bucket: str, key: str, version_id: str | None = None) -> memoryview:
    """The whole object. Raises ClientError."""
    if version_id is not None and not isinstance(version_id, str):
        raise TypeError(f"version_id is a str, not {type(version_id).__name__}")
    query = (("versionId", version_id),) if version_id is not None else ()
    response = send(ObjectRequest("GET", bucket, key, query))
    found = content_range(response) if response.status == 206 else None
    if response.status == 206 and (found is None or (found.start, found.end) != (0, found.size)):
        raise corrupt_body("a part came of an object that was requested whole", bucket, key, response)
    return response.body.toreadonly()


def read_range(send: SendRequest, bucket: str, key: str, start: int, end: int | None) -> memoryview:
    """The bytes from `start` up to `end`, exclusive; None: to the end of the object. Raises RangeNotSatisfiable where
    the object has no byte at `start`, and the other ClientErrors."""
    start, end = index_of(start), end_of(end)
    if start < 0 or (end is not None and end < start):
        raise ValueError(f"no range: {start}-{end}")
    if start == end:
        return memoryview(b"")
    return range_of(send(ObjectRequest("GET", bucket, key, span=(start, end))), bucket, key, start, end).toreadonly()


def read_into(send: SendRequest, bucket: str, key: str, buffer: "WriteableBuffer", start: int) -> int:
    """Reads from byte `start` on into a writable buffer. Returns the bytes written. Raises ClientError."""
    view, start = bytes_to_fill(buffer), index_of(start)
    if start < 0:
        raise ValueError(f"no offset: {start}")
    if not len(view):
        return 0
    end = start + len(view)
    try:
        response = send(ObjectRequest("GET", bucket, key, span=(start, end), buffer=view))
    except RangeNotSatisfiable:
        return 0
    body = range_of(response, bucket, key, start, end)
    if body.obj is not view.obj:
        view[: len(body)] = body
    return len(body)


def read_entry(send: SendRequest, bucket: str, key: BatchKey) -> memoryview:
    """The bytes of one key of a batch: of an object, a range of it, or a member of a pack. Raises ClientError."""
    if key.member is not None:
        return read_member(send, bucket, key)
    if key.start == 0 and key.end is None:
        return read_object(send, bucket, key.key)
    return read_range(send, bucket, key.key, key.start, key.end)


def read_head(send: SendRequest, bucket: str, key: str) -> ObjectInfo:
    """Size, ETag, type and metadata of an object. Raises ClientError."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 # a head alone has a date

    response = send(ObjectRequest("HEAD", bucket, key))
    headers = response.headers
    modified = headers.get("last-modified")
    metadata = {
        name.removeprefix(prefix): value
        for prefix in _META
        for name, value in headers.items()
        if name.startswith(prefix)
    }
    try:
        size = int(headers.get("content-length", "0"))
        changed = parsedate_to_datetime(modified) if modified else None
    except ValueError:
        raise ClientError("the head can't be read", bucket=bucket, key=key, status=response.status) from None
    version = headers.get("x-amz-version-id") or headers.get("x-oss-version-id")
    etag, kind = response.etag, headers.get("content-type")
    return ObjectInfo(bucket, key, size, etag, changed, kind, metadata, version, headers)


def range_of(response: ObjectResponse, bucket: str, key: str, start: int, end: int | None) -> memoryview:
    """The range in a response. Raises BodyCorrupt where it is another."""
    if response.status == 206:
        found = content_range(response)
        if found is None or found.start != start or (end is not None and found.end > end):
            raise corrupt_body("the response is of another range", bucket, key, response)
        return response.body
    # The server ignored the range, as HTTP allows: this is the whole object.
    if start >= len(response.body):
        raise RangeNotSatisfiable("the range begins behind the end of the object", bucket=bucket, key=key)
    return response.body[start:end]
