"""The XML documents of S3 that Forebay writes or reads itself; all others are forwarded unread.

- Written: the error document, the body of a CompleteMultipartUpload, and the answers to the multipart uploads of
  Forebay's own resources.
- Read from clients: the keys of DeleteObjects and the parts of CompleteMultipartUpload, to authorise and check them.
- Read from origins: an ETag, an upload id, and an error in a response with status 200 (S3 sends the head of the
  response before it knows how a copy or a completion will end).

A client's document is read so strictly that no origin can read it differently: no DTD, no comments (some parsers end an
element's text there), no encoding but UTF-8, no element twice, and no unexpected element around a key. Depth, size and
number of elements are bounded.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from forebay.core.buffers import Piece
from forebay.core.cooperative import CooperativeWork, run_to_completion
from forebay.core.errors import MalformedXml, S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.protocol.target import check_key
from forebay.protocol.xml.record_reader import RecordDocument, RecordReader, read_document
from forebay.protocol.xml.xml_tree import DECLARATION, S3_NAMESPACE, Element, escape_text, write_tree

MAX_BODY: Final = 8 * 1024 * 1024  # 1,000 keys of 1,024 bytes, or 10,000 parts with checksums, however escaped.
MAX_KEYS: Final = 1000  # https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
MAX_PARTS: Final = 10_000

_BYTES_PER_STEP: Final = 4 << 10
"""Bytes parsed between two yields: a quarter of a millisecond."""
_PARTS_PER_STEP: Final = 256
_NUMBER: Final = re.compile("[1-9][0-9]{0,4}")
_LOCATION: Final = re.compile(rb"<Location>[^<]*</Location>")
_CHECKSUM: Final = "Checksum"
_VERSIONING: Final = "VersioningConfiguration"
_OBJECT_FIELDS: Final = frozenset({"Key", "VersionId", "ETag", "LastModifiedTime", "Size"})


class ListedKey(NamedTuple):
    """One object of a DeleteObjects body."""

    key: str
    version_id: str | None
    is_conditional: bool = False
    """Whether it is to be deleted only if it is as the client has it."""


class UploadedPart(NamedTuple):
    """One part of a CompleteMultipartUpload body."""

    number: int
    etag: str
    """The ETag that the client sent, with or without quotes; empty if it sent none."""
    checksums: HeaderPairs = ()
    """The checksums by the names of their elements: (ChecksumCRC32, base64)."""


def error_document(error: S3Error, *, request_id: str, host_id: str) -> bytes:
    """The body of an error response. It has no path of the request: S3's own have only the details of the case."""
    elements = {"Code": error.code, "Message": error.message, **error.details}
    elements["RequestId"] = request_id
    elements["HostId"] = host_id
    inner = "".join(f"<{name}>{escape_text(value)}</{name}>" for name, value in elements.items())
    return f"{DECLARATION}<Error>{inner}</Error>".encode()


class DeleteObjectsReader:
    """Reads a DeleteObjects body as it arrives."""

    def __init__(self) -> None:
        self._empty = True
        self.is_quiet = False
        """Whether the answer is to name failures only; known after `close`."""
        self._reader = RecordReader(max_elements=MAX_KEYS * (len(_OBJECT_FIELDS) + 1) + 2, max_depth=3)

    def feed(self, piece: Piece) -> None:
        """Parses the next bytes. Raises S3Error MalformedXML, as soon as possible."""
        self._empty = self._empty and not len(piece)
        try:
            self._reader.feed(piece)
        except MalformedXml as refused:
            raise _malformed(refused) from refused

    def close(self) -> list[ListedKey]:
        """The listed objects.

        Raises S3Error MissingRequestBodyError, MalformedXML, UserKeyMustBeSpecified, KeyTooLongError.
        """
        if self._empty:
            raise S3Error("MissingRequestBodyError")
        try:
            document = self._reader.close()
        except MalformedXml as refused:
            raise _malformed(refused) from refused
        root = _require_root(document, "Delete")
        self.is_quiet = root.fields.get("Quiet", "").strip().lower() == "true"
        return _listed_keys(root)


def listed_keys(body: bytes) -> list[ListedKey]:
    """The objects that a DeleteObjects body lists. Raises as DeleteObjectsReader does."""
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
        conditions = fields.keys() - {"Key", "VersionId"}
        keys.append(ListedKey(check_key(fields["Key"]), fields.get("VersionId") or None, bool(conditions)))
    return keys


def deletion_without(body: bytes, is_dropped: Callable[[str], bool]) -> bytes:
    """A DeleteObjects body that `DeleteObjectsReader` has accepted, without the keys that are to be dropped."""
    reader = RecordReader(max_elements=MAX_KEYS * (len(_OBJECT_FIELDS) + 1) + 2, max_depth=3)
    reader.feed(body)
    document = reader.close()
    root = Element("Delete")
    for name, text in document.fields.items():
        root.add(name, text)
    for name, fields in document.records:
        if not is_dropped(fields["Key"]):
            root.add(name, "", *(Element(field, text) for field, text in fields.items()))
    return write_tree(root, S3_NAMESPACE)


def read_parts_cooperatively(body: bytes) -> CooperativeWork[list[UploadedPart]]:
    """Returns the parts that a CompleteMultipartUpload body lists, in its order, as cooperative work: there may be ten
    thousand. Raises S3Error MalformedXML."""
    if len(body) > MAX_BODY:
        raise _malformed(MalformedXml("it is too large"))
    reader = RecordReader(max_elements=MAX_PARTS * 16, max_depth=3)
    parts: list[UploadedPart] = []
    try:
        for start in range(0, len(body), _BYTES_PER_STEP):
            reader.feed(memoryview(body)[start : start + _BYTES_PER_STEP])
            parts += map(_part, reader.drain_records())
            if len(parts) > MAX_PARTS:
                raise S3Error("MalformedXML")
            yield
        document = _require_root(reader.close(), "CompleteMultipartUpload")
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
    checksums = tuple((field, text.strip()) for field, text in fields.items() if field.startswith(_CHECKSUM))
    return UploadedPart(int(number), fields.get("ETag", "").strip(), checksums)


def write_completion_cooperatively(parts: Sequence[UploadedPart]) -> CooperativeWork[bytes]:
    """The body of a CompleteMultipartUpload that lists `parts`, as cooperative work."""
    written = ["<CompleteMultipartUpload>"]
    for count, (number, etag, checksums) in enumerate(parts, 1):
        sums = "".join(f"<{name}>{escape_text(value)}</{name}>" for name, value in checksums)
        written.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{escape_text(etag)}</ETag>{sums}</Part>")
        if count % _PARTS_PER_STEP == 0:
            yield
    written.append("</CompleteMultipartUpload>")
    return "".join(written).encode()


def completion_document(parts: Sequence[UploadedPart]) -> bytes:
    """The body of a CompleteMultipartUpload that lists `parts`."""
    return run_to_completion(write_completion_cooperatively(parts))


def created_document(name: ObjectName, upload_id: str) -> bytes:
    """The answer to a CreateMultipartUpload."""
    root = Element("InitiateMultipartUploadResult")
    for field, text in (("Bucket", name.bucket), ("Key", name.key), ("UploadId", upload_id)):
        root.add(field, text)
    return write_tree(root, S3_NAMESPACE)


def completed_document(name: ObjectName, etag: str, url: str, checksums: HeaderPairs = ()) -> bytes:
    """The answer to a CompleteMultipartUpload. `url`: of the object, as the client knows it; `checksums`: elements."""
    root = Element("CompleteMultipartUploadResult")
    for field, text in (("Location", url), ("Bucket", name.bucket), ("Key", name.key), ("ETag", etag), *checksums):
        root.add(field, text)
    return write_tree(root, S3_NAMESPACE)


def copied_document(etag: str, last_modified: str, checksums: HeaderPairs = ()) -> bytes:
    """The answer to a CopyObject. `last_modified`: as in listings; `checksums`: elements."""
    return _copied("CopyObjectResult", etag, last_modified, checksums)


def copied_part_document(etag: str, last_modified: str, checksums: HeaderPairs = ()) -> bytes:
    """The answer to an UploadPartCopy. `last_modified`: as in listings; `checksums`: elements."""
    return _copied("CopyPartResult", etag, last_modified, checksums)


def _copied(name: str, etag: str, last_modified: str, checksums: HeaderPairs) -> bytes:
    root = Element(name)
    for field, text in (("LastModified", last_modified), ("ETag", etag), *checksums):
        root.add(field, text)
    return write_tree(root, S3_NAMESPACE)


def deleted_document(keys: Sequence[str]) -> bytes:
    """The answer to a DeleteObjects that has deleted these keys."""
    root = Element("DeleteResult")
    for key in keys:
        root.add("Deleted", "", Element("Key", key))
    return write_tree(root, S3_NAMESPACE)


def deletion_results(before: bytes | None, added: Sequence[tuple[str, S3Error | None]]) -> bytes | None:
    """Returns the response to a DeleteObjects, `before` or an empty one, with the results of further keys added; None:
    `before` is no such response."""
    root = Element("DeleteResult")
    if before is not None:
        document = _from_origin(before)
        if document is None or document.root != root.name:
            return None
        for name, fields in document.records:
            root.add(name, "", *(Element(field, text) for field, text in fields.items()))
    for key, error in added:
        if error is None:
            root.add("Deleted", "", Element("Key", key))
        else:
            root.add("Error", "", Element("Key", key), Element("Code", error.code), Element("Message", error.message))
    return write_tree(root, S3_NAMESPACE)


def result_etag(body: bytes) -> str | None:
    """The ETag in a response to CompleteMultipartUpload, CopyObject or UploadPartCopy; None for any other document."""
    return _field(body, {"CompleteMultipartUploadResult", "CopyObjectResult", "CopyPartResult"}, "ETag")


def completed_fields(body: bytes) -> Mapping[str, str]:
    """The fields in a response to CompleteMultipartUpload; none for any other document."""
    document = _from_origin(body)
    return document.fields if document is not None and document.root == "CompleteMultipartUploadResult" else {}


def upload_id(body: bytes) -> str | None:
    """The upload id in a response to CreateMultipartUpload; None for any other document."""
    return _field(body, {"InitiateMultipartUploadResult"}, "UploadId")


def versioning_status(body: bytes) -> str | None:
    """The status in a response to GetBucketVersioning: Enabled, Suspended, or empty for a bucket that never kept
    versions; None for any other document."""
    document = _from_origin(body)
    return document.fields.get("Status", "") if document is not None and document.root == _VERSIONING else None


def with_location(body: bytes, url: str) -> bytes:
    """A response to CompleteMultipartUpload with the client's URL of the object in place of the origin's."""
    return _LOCATION.sub(lambda _match: b"<Location>" + escape_text(url).encode() + b"</Location>", body, count=1)


def embedded_error(body: bytes) -> str | None:
    """The code of the error document in a response with status 200; None if the body is no error document.

    A body that can't be read but has an error's tag is an InternalError: a success is never guessed.
    """
    if b"<Error" not in body:
        return None
    document = _from_origin(body)
    if document is None:
        return "InternalError"
    return (document.fields.get("Code") or "InternalError") if document.root == "Error" else None


def refused_keys(body: bytes) -> set[str]:
    """The keys that a response to DeleteObjects says were not deleted; none for any other body."""
    document = _from_origin(body) if b"<Error" in body else None
    if document is None or document.root != "DeleteResult":
        return set()
    return {fields.get("Key", "") for name, fields in document.records if name == "Error"}


def _require_root(document: RecordDocument, root: str) -> RecordDocument:
    if document.root != root:
        raise S3Error("MalformedXML", f"The root element must be {root}.")
    return document


def _malformed(refused: MalformedXml) -> S3Error:
    return S3Error("MalformedXML", f"The XML was not understood: {refused}.")


def _from_origin(body: bytes) -> RecordDocument | None:
    try:
        # S3 keeps the connection alive during a long completion with blanks, some servers before the XML declaration.
        return read_document(body.lstrip(), max_size=MAX_BODY, max_elements=MAX_PARTS, max_depth=8)
    except MalformedXml:
        return None


def _field(body: bytes, roots: set[str], name: str) -> str | None:
    document = _from_origin(body)
    if document is None or document.root not in roots:
        return None
    return document.fields.get(name) or None
