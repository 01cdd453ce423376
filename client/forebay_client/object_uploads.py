"""Uploads: one PUT, or a multipart upload whose parts travel in parallel.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

import binascii
from collections.abc import Mapping, Sequence
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Final

from forebay.core.errors import MalformedXml
from forebay.protocol.header_line import HEADER_NAME
from forebay.protocol.xml.xml_tree import Element, read_tree, write_tree
from forebay_client.client_errors import BodyCorrupt, ClientError, InvalidRequest, ObjectNotFound, ServiceUnavailable
from forebay_client.objects import ObjectInfo
from forebay_client.transport.object_request import FilePart, ObjectRequest, ObjectResponse, SendRequest, UploadContent

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

MAX_PARTS: Final = 10_000
SMALLEST_PART: Final = 5 << 20
_META: Final = "x-amz-meta-"


def upload_headers(content_type: str | None, metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The headers of an upload. Raises InvalidRequest for a type and for metadata that a header can't hold."""
    headers: dict[str, str] = {}
    if content_type is not None:
        if not isinstance(content_type, str):
            raise TypeError(f"a content type is text, not {type(content_type).__name__}")
        if not (content_type.isascii() and content_type.isprintable()):
            raise InvalidRequest(f"a content type is printable ASCII; {content_type!r} is not")
        headers["content-type"] = content_type
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is a mapping, not {type(metadata).__name__}")
    for name, value in (metadata or {}).items():
        for each in (name, value):
            if not isinstance(each, str):
                raise TypeError(f"metadata is text; {name!r} is of type {type(each).__name__}")
        if not (name.isascii() and value.isascii() and value.isprintable() and name.isprintable()):
            raise InvalidRequest(f"metadata is printable ASCII; {name!r} is not")
        if not HEADER_NAME.fullmatch(name.lower()):
            raise InvalidRequest(f"a name of metadata is a token, as that of a header; {name!r} is not")
        if f"{_META}{name.lower()}" in headers:
            raise InvalidRequest(f"names of metadata have no case; {name.lower()!r} is there twice")
        headers[f"{_META}{name.lower()}"] = value
    return headers


def put_content(
    send: SendRequest, bucket: str, key: str, content: UploadContent, size: int, headers: Mapping[str, str]
) -> ObjectInfo:
    """Uploads with one PUT. Returns the object as it was acknowledged."""
    response = send(ObjectRequest("PUT", bucket, key, headers=headers, content=content))
    return _acknowledged(bucket, key, size, response.etag, headers, response)


class PartUpload:
    """A multipart upload that was begun. Threads may put parts at once."""

    def __init__(self, send: SendRequest, bucket: str, key: str, headers: Mapping[str, str]) -> None:
        """Begins it. Raises ClientError."""
        created = send(ObjectRequest("POST", bucket, key, (("uploads", ""),), headers))
        self._upload = _document(created, bucket, key).text_at("UploadId")
        if not self._upload:
            raise ServiceUnavailable("the upload has no id", bucket=bucket, key=key)
        self._send, self._bucket, self._key, self._headers = send, bucket, key, headers

    def put(self, number: int, content: UploadContent) -> str:
        """Uploads a part, numbered from 1. Returns its ETag."""
        query = (("partNumber", str(number)), ("uploadId", self._upload))
        return self._send(ObjectRequest("PUT", self._bucket, self._key, query, content=content)).etag

    def copy(self, number: int, source: Mapping[str, str]) -> str:
        """Copies a part; `source`: the headers that say of what. Returns its ETag."""
        query = (("partNumber", str(number)), ("uploadId", self._upload))
        document = _document(
            self._send(ObjectRequest("PUT", self._bucket, self._key, query, source)), self._bucket, self._key
        )
        etag = document.text_at("ETag")
        if document.name == "Error" or not etag:  # the status was sent before the outcome was known
            problem = document.text_at("Message") or "the copy of a part failed"
            raise ServiceUnavailable(problem, bucket=self._bucket, key=self._key, status=200)
        return etag

    def complete(self, futures: "Sequence[Future[str]]", size: int) -> ObjectInfo:
        """Makes the parts, in their order, the object of `size` bytes. Raises ClientError; a failed upload is
        aborted."""
        try:
            etags = [future.result() for future in futures]
            response, etag = _complete(self._send, self._bucket, self._key, self._upload, etags)
        except BaseException:
            self.abort(futures)
            raise
        return _acknowledged(self._bucket, self._key, size, etag, self._headers, response)

    def abort(self, futures: "Sequence[Future[str]]") -> None:
        """Ends it without an object, once no part is under way."""
        for future in futures:
            future.cancel()
        for future in futures:  # a part that is under way would outlive the abort
            if not future.cancelled():
                future.exception()
        _abort(self._send, self._bucket, self._key, self._upload)


def put_in_parts(
    send: SendRequest,
    bucket: str,
    key: str,
    path: Path,
    size: int,
    part_size: int,
    headers: Mapping[str, str],
    executor: "Executor",
) -> ObjectInfo:
    """Uploads a file in parts of at least `part_size` bytes. A failed upload is aborted. Raises ClientError."""
    length = max(part_size, SMALLEST_PART, -(-size // MAX_PARTS))
    upload = PartUpload(send, bucket, key, headers)

    def put_part(number: int) -> str:
        start = (number - 1) * length
        return upload.put(number, FilePart(path, start, min(length, size - start)))

    futures = [executor.submit(put_part, number) for number in range(1, -(-size // length) + 1)]
    return upload.complete(futures, size)


def _complete(
    send: SendRequest, bucket: str, key: str, upload: str, etags: Sequence[str]
) -> tuple[ObjectResponse, str]:
    root = Element("CompleteMultipartUpload")
    for number, etag in enumerate(etags, start=1):
        root.add("Part", "", Element("PartNumber", str(number)), Element("ETag", etag))
    request = ObjectRequest("POST", bucket, key, (("uploadId", upload),), content=write_tree(root))
    try:
        response = send(request)
    except ObjectNotFound:
        # The completion was repeated after its first answer was lost: the object is there, with the parts' ETag.
        found = send(ObjectRequest("HEAD", bucket, key))
        if found.etag.strip('"').lower() != _parts_etag(etags):
            raise
        return found, found.etag
    tree = _document(response, bucket, key)
    if tree.name == "Error":  # the status was sent before the outcome was known
        code, message = tree.text_at("Code"), tree.text_at("Message")
        raise ServiceUnavailable(message or "the completion failed", bucket=bucket, key=key, status=200, code=code)
    return response, tree.text_at("ETag") or response.etag


def _abort(send: SendRequest, bucket: str, key: str, upload: str) -> None:
    try:
        send(ObjectRequest("DELETE", bucket, key, (("uploadId", upload),)))
    except ClientError:
        return  # the first error counts; a lifecycle rule removes what is left


def _parts_etag(etags: Sequence[str]) -> str | None:
    """The ETag that S3 makes of its parts'; None where they are no MD5s."""
    try:
        digests = b"".join(binascii.unhexlify(etag.strip('"')) for etag in etags)
    except ValueError:
        return None
    return f"{md5(digests, usedforsecurity=False).hexdigest()}-{len(etags)}"


def _document(response: ObjectResponse, bucket: str, key: str) -> Element:
    try:
        return read_tree(bytes(response.body), max_size=1 << 20, max_elements=1000)
    except MalformedXml as error:
        raise BodyCorrupt(f"the response can't be read: {error}", bucket=bucket, key=key) from error


def _acknowledged(
    bucket: str, key: str, size: int, etag: str, headers: Mapping[str, str], response: ObjectResponse
) -> ObjectInfo:
    metadata = {name.removeprefix(_META): value for name, value in headers.items() if name.startswith(_META)}
    answered = response.headers
    version = answered.get("x-amz-version-id") or answered.get("x-oss-version-id")
    return ObjectInfo(bucket, key, size, etag, None, headers.get("content-type"), metadata, version, answered)
