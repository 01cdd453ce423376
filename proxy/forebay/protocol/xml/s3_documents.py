"""The XML documents of S3 that Forebay writes or reads itself; all others are passed on unread.

Written: the error document. Read from clients: the keys of DeleteObjects and the parts of CompleteMultipartUpload,
which have to be authorised and checked. Read from origins: an ETag, an upload id, and errors that hide in an answer
with status 200 (S3 sends its head before it knows how a copy or a completion will end).

What a client sends is read so that no origin can read it otherwise: no DTD, no comments (some parsers end an element's
text there), no encoding but UTF-8, no element twice, and none that is not expected around a key. Depth, size and number
of elements are bounded.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from forebay.core.cooperative import CooperativeWork, run_to_completion
from forebay.core.errors import MalformedXml, S3Error
from forebay.protocol.body.checksums import Piece
from forebay.protocol.target import check_key
from forebay.protocol.xml.record_reader import RecordDocument, RecordReader, read_document
from forebay.protocol.xml.xml_text import escape_text

MAX_BODY: Final = 8 * 1024 * 1024  # 1,000 keys of 1,024 bytes, or 10,000 parts with checksums, however escaped.
MAX_KEYS: Final = 1000  # https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
MAX_PARTS: Final = 10_000

_AT_ONCE: Final = 4 << 10
"""Bytes that are parsed in one stretch: a quarter of a millisecond."""
_PARTS_AT_ONCE: Final = 256
_NUMBER: Final = re.compile("[1-9][0-9]{0,4}")
_LOCATION: Final = re.compile(rb"<Location>[^<]*</Location>")
_OBJECT_FIELDS: Final = frozenset({"Key", "VersionId", "ETag", "LastModifiedTime", "Size"})


class ListedKey(NamedTuple):
    """One object of a DeleteObjects body."""

    key: str
    version_id: str | None


class UploadedPart(NamedTuple):
    """One part of a CompleteMultipartUpload body."""

    number: int
    etag: str
    """As the client sent it, with or without quotes; empty if it sent none."""


def error_document(error: S3Error, *, request_id: str, host_id: str = "") -> bytes:
    """The body of an error answer. The path that was asked is not in it: S3's own have only the details of the case."""
    elements = {"Code": error.code, "Message": error.message, **error.details}
    elements["RequestId"] = request_id
    elements["HostId"] = host_id
    inner = "".join(f"<{name}>{escape_text(value)}</{name}>" for name, value in elements.items())
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inner}</Error>'.encode()


class DeleteObjectsReader:
    """Reads a DeleteObjects body as it arrives."""

    def __init__(self) -> None:
        self._empty = True
        self._reader = RecordReader(max_elements=MAX_KEYS * (len(_OBJECT_FIELDS) + 1) + 2, max_depth=3)

    def feed(self, piece: Piece) -> None:
        """Raises S3Error MalformedXML, as soon as it can."""
        self._empty = self._empty and not len(piece)
        try:
            self._reader.feed(piece)
        except MalformedXml as refused:
            raise _malformed(refused) from refused

    def close(self) -> list[ListedKey]:
        """The objects that it names. Raises S3Error MissingRequestBodyError, MalformedXML, UserKeyMustBeSpecified,
        KeyTooLongError."""
        if self._empty:
            raise S3Error("MissingRequestBodyError")
        try:
            document = self._reader.close()
        except MalformedXml as refused:
            raise _malformed(refused) from refused
        return _listed_keys(_rooted(document, "Delete"))


def listed_keys(body: bytes) -> list[ListedKey]:
    """The objects that a DeleteObjects body names. Raises what DeleteReader raises."""
    reader = DeleteObjectsReader()
    reader.feed(body)
    return reader.close()


def _listed_keys(document: RecordDocument) -> list[ListedKey]:
    if not document.fields.keys() <= {"Quiet"} or not 1 <= len(document.records) <= MAX_KEYS:
        raise S3Error("MalformedXML")
    keys = []
    for name, fields in document.records:
        if name != "Object" or not fields.keys() <= _OBJECT_FIELDS:
            raise S3Error("MalformedXML")
        if not fields.get("Key"):
            raise S3Error("UserKeyMustBeSpecified")
        keys.append(ListedKey(check_key(fields["Key"]), fields.get("VersionId") or None))
    return keys


def uploaded_parts(body: bytes) -> list[UploadedPart]:
    """The parts that a CompleteMultipartUpload body lists, in its order. Raises S3Error MalformedXML."""
    return run_to_completion(read_parts_cooperatively(body))


def read_parts_cooperatively(body: bytes) -> CooperativeWork[list[UploadedPart]]:
    """`uploaded_parts`, in stretches: there may be ten thousand."""
    if len(body) > MAX_BODY:
        raise _malformed(MalformedXml("it is too large"))
    reader = RecordReader(max_elements=MAX_PARTS * 16, max_depth=3)
    parts: list[UploadedPart] = []
    try:
        for start in range(0, len(body), _AT_ONCE):
            reader.feed(memoryview(body)[start : start + _AT_ONCE])
            parts += map(_part, reader.drain_records())
            if len(parts) > MAX_PARTS:
                raise S3Error("MalformedXML")
            yield
        document = _rooted(reader.close(), "CompleteMultipartUpload")
    except MalformedXml as refused:
        raise _malformed(refused) from refused
    if document.fields or not parts:
        raise S3Error("MalformedXML")
    return parts


def _part(record: tuple[str, dict[str, str]]) -> UploadedPart:
    name, fields = record
    number = fields.get("PartNumber", "").strip()
    if name != "Part" or not _NUMBER.fullmatch(number) or int(number) > MAX_PARTS:
        raise S3Error("MalformedXML")
    return UploadedPart(int(number), fields.get("ETag", "").strip())


def write_completion_cooperatively(parts: Sequence[UploadedPart]) -> CooperativeWork[bytes]:
    """The body of a CompleteMultipartUpload that lists `parts`."""
    written = ["<CompleteMultipartUpload>"]
    for place, (number, etag) in enumerate(parts, 1):
        written.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{escape_text(etag)}</ETag></Part>")
        if place % _PARTS_AT_ONCE == 0:
            yield
    written.append("</CompleteMultipartUpload>")
    return "".join(written).encode()


def completion_document(parts: Sequence[UploadedPart]) -> bytes:
    """`writing_completion`, at once."""
    return run_to_completion(write_completion_cooperatively(parts))


def result_etag(body: bytes) -> str | None:
    """The ETag in the answer to CompleteMultipartUpload, CopyObject or UploadPartCopy; None if it is none of these."""
    return _field(body, {"CompleteMultipartUploadResult", "CopyObjectResult", "CopyPartResult"}, "ETag")


def upload_id(body: bytes) -> str | None:
    """The upload id in the answer to CreateMultipartUpload; None if it is not that."""
    return _field(body, {"InitiateMultipartUploadResult"}, "UploadId")


def with_location(body: bytes, url: str) -> bytes:
    """The answer to CompleteMultipartUpload, with the object where the client knows it, not where its origin does."""
    return _LOCATION.sub(lambda found: b"<Location>" + escape_text(url).encode() + b"</Location>", body, count=1)


def embedded_error(body: bytes) -> str | None:
    """The code of the error that an answer with status 200 turns out to be; None if it is no error document.

    A body that can't be read but bears an error's tag is an InternalError: a success is never guessed.
    """
    if b"<Error" not in body:
        return None
    document = _from_origin(body)
    if document is None:
        return "InternalError"
    return (document.fields.get("Code") or "InternalError") if document.root == "Error" else None


def _rooted(document: RecordDocument, root: str) -> RecordDocument:
    if document.root != root:
        raise S3Error("MalformedXML", f"The root element must be {root}.")
    return document


def _malformed(refused: MalformedXml) -> S3Error:
    return S3Error("MalformedXML", f"The XML was not understood: {refused}.")


def _from_origin(body: bytes) -> RecordDocument | None:
    try:
        # S3 keeps the connection of a long completion alive with blanks, some servers before the XML declaration.
        return read_document(body.lstrip(), max_size=MAX_BODY, max_elements=MAX_PARTS, max_depth=8)
    except MalformedXml:
        return None


def _field(body: bytes, roots: set[str], name: str) -> str | None:
    document = _from_origin(body)
    if document is None or document.root not in roots:
        return None
    return document.fields.get(name) or None
