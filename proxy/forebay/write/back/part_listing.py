"""Part listings: ListParts of an upload in the journal, as the origin would answer it.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListParts.html
"""

from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.dates import format_document_time
from forebay.protocol.target import Target
from forebay.protocol.xml.xml_tree import S3_NAMESPACE, Element, write_tree
from forebay.write.back.pending_uploads import PendingUpload, PendingUploads

MOST_PARTS: Final = 1000


def parts_document(uploads: PendingUploads, target: Target) -> bytes:
    """Returns the answer to a ListParts. Raises S3Error."""
    upload_id = target.param("uploadId") or ""
    upload = uploads.find(target.name, upload_id)
    if upload is None:
        raise S3Error("NoSuchUpload", UploadId=upload_id)
    after, most = _number(target, "part-number-marker", 0), _number(target, "max-parts", MOST_PARTS)
    return _document(upload, after, min(most, MOST_PARTS))


def _document(upload: PendingUpload, after: int, most: int) -> bytes:
    numbers = sorted(number for number in upload.parts if number > after)
    shown = numbers[:most]
    root = Element("ListPartsResult")
    for field, text in (
        ("Bucket", upload.upload.name.bucket),
        ("Key", upload.upload.name.key),
        ("UploadId", upload.upload.upload_id),
        ("StorageClass", "STANDARD"),
        ("PartNumberMarker", str(after)),
        ("NextPartNumberMarker", str(shown[-1] if shown else 0)),
        ("MaxParts", str(most)),
        ("IsTruncated", "true" if len(shown) < len(numbers) else "false"),
    ):
        root.add(field, text)
    for number in shown:
        part = upload.parts[number].part
        root.add(
            "Part",
            "",
            Element("PartNumber", str(number)),
            Element("LastModified", format_document_time(part.accepted_at)),
            Element("ETag", part.etag),
            Element("Size", str(part.size)),
        )
    return write_tree(root, S3_NAMESPACE)


def _number(target: Target, name: str, default: int) -> int:
    text = target.param(name)
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise S3Error("InvalidArgument", f"{name} is a number.", ArgumentName=name)
    return int(text)
