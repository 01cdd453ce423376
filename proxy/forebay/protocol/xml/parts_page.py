"""The response to a ListParts that Forebay answers itself.

With `encoding-type=url` the key is percent-encoded: OSS and MinIO know the parameter, and S3 ignores it. A page of no
parts (`max-parts=0`) is the last one, as a client that went on would get the same page for ever.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListParts.html
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.protocol.dates import format_document_time
from forebay.protocol.target import Target
from forebay.protocol.xml.xml_tree import S3_NAMESPACE, Element, write_tree

MOST_PARTS: Final = 1000
"""The most parts of one answer."""


class ListedPart(NamedTuple):
    """A part of an upload."""

    etag: str
    """Quoted."""
    size: int
    modified_at: float
    """Seconds since the epoch."""
    checksums: HeaderPairs = ()
    """The checksums, as elements."""


def part_listing(target: Target, parts: Mapping[int, ListedPart], checksums: HeaderPairs = ()) -> bytes:
    """Returns the page that the query of `target` requests, of the parts of its upload by number. `checksums`: elements
    with the algorithm and type of the upload. Raises S3Error."""
    after, most = _number(target, "part-number-marker", 0), _number(target, "max-parts", MOST_PARTS)
    most, key = min(most, MOST_PARTS), target.name.key
    encoding = target.param("encoding-type") or ""
    if encoding not in {"", "url"}:
        raise S3Error("InvalidArgument", "The encoding can only be url.", ArgumentName="encoding-type")
    numbers = sorted(number for number in parts if number > after)
    shown = numbers[:most]
    root = Element("ListPartsResult")
    for field, text in (
        ("Bucket", target.name.bucket),
        ("Key", quote(key, safe="/") if encoding else key),
        ("UploadId", target.param("uploadId") or ""),
        ("StorageClass", "STANDARD"),
        *checksums,
        *((("EncodingType", encoding),) if encoding else ()),
        ("PartNumberMarker", str(after)),
        ("NextPartNumberMarker", str(shown[-1] if shown else 0)),
        ("MaxParts", str(most)),
        ("IsTruncated", "true" if 0 < len(shown) < len(numbers) else "false"),
    ):
        root.add(field, text)
    for number in shown:
        part = parts[number]
        root.add(
            "Part",
            "",
            Element("PartNumber", str(number)),
            Element("LastModified", format_document_time(part.modified_at)),
            Element("ETag", part.etag),
            Element("Size", str(part.size)),
            *(Element(field, text) for field, text in part.checksums),
        )
    return write_tree(root, S3_NAMESPACE)


def _number(target: Target, name: str, default: int) -> int:
    text = target.param(name)
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise S3Error("InvalidArgument", f"{name} is a number.", ArgumentName=name)
    return int(text)
