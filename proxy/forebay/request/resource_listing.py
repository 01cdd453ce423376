"""Listings of Forebay's own resources, in the forms of ListObjects and ListObjectsV2.

A listing is answered here if its prefix begins with `.forebay/`; one above that is the origin's and shows none of
these. There are few resources, so a page is cut out of all of them.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import md5
from typing import Final
from urllib.parse import quote

from forebay.core.errors import S3Error
from forebay.protocol.dates import format_document_time
from forebay.protocol.target import Target
from forebay.protocol.xml.xml_tree import S3_NAMESPACE, Element, write_tree
from forebay.request.resource import ResourceEntry

MAX_KEYS: Final = 1000


def _opaque_etag(entry: ResourceEntry) -> str:
    """An ETag that changes with the entry, of a resource that was not read: no MD5, as its hyphen says."""
    identity = repr((entry.name, entry.size, entry.modified_at)).encode()
    return f'"{md5(identity, usedforsecurity=False).hexdigest()}-1"'


@dataclass(frozen=True, slots=True)
class _ListingRequest:
    """The parameters of a listing."""

    bucket: str
    prefix: str
    delimiter: str
    after: str
    """The key or common prefix after which the page begins."""
    max_keys: int
    is_v2: bool
    encodes: bool

    def text(self, value: str) -> str:
        """A key, as the document has it."""
        return quote(value, safe="/~") if self.encodes else value


def resource_listing(target: Target, entries: Iterable[ResourceEntry]) -> bytes:
    """The document that answers the listing `target`. `entries`: of all resources, by their keys. Raises S3Error."""
    request = _request_of(target)
    found: dict[str, ResourceEntry | None] = {}
    """Keys, and common prefixes (None), in order."""
    for entry in sorted(entries, key=lambda each: each.name):
        key = entry.name
        if not key.startswith(request.prefix):
            continue
        end = key.find(request.delimiter, len(request.prefix)) if request.delimiter else -1
        if end >= 0:
            found[key[: end + len(request.delimiter)]] = None
        else:
            found[key] = entry
    rest = [(key, entry) for key, entry in found.items() if key > request.after]
    page = rest[: request.max_keys]
    following = page[-1][0] if len(rest) > len(page) and page else None
    root = _document(request, target, following, len(page))
    for _, listed in page:
        if listed is not None:
            root.add("Contents", "", *_contents(request, listed))
    for key, listed in page:
        if listed is None:
            root.add("CommonPrefixes", "", Element("Prefix", request.text(key)))
    return write_tree(root, S3_NAMESPACE)


def _request_of(target: Target) -> _ListingRequest:
    is_v2 = target.param("list-type") is not None
    after = target.param("start-after" if is_v2 else "marker") or ""
    token = target.param("continuation-token") if is_v2 else None
    if token:
        try:
            after = urlsafe_b64decode(token.encode()).decode()
        except ValueError:
            raise S3Error("InvalidArgument", "This continuation token is of another listing.") from None
    limit = target.param("max-keys") or str(MAX_KEYS)
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 10):
        raise S3Error("InvalidArgument", "max-keys is a number.", ArgumentName="max-keys", ArgumentValue=limit)
    return _ListingRequest(
        target.bucket or "",
        target.param("prefix") or "",
        target.param("delimiter") or "",
        after,
        min(int(limit), MAX_KEYS),
        is_v2,
        target.param("encoding-type") == "url",
    )


def _document(request: _ListingRequest, target: Target, following: str | None, count: int) -> Element:
    """The document without its entries. `following`: after which key the next page begins."""
    root = Element("ListBucketResult")
    root.add("Name", request.bucket)
    root.add("Prefix", request.text(request.prefix))
    if request.is_v2:
        root.add("KeyCount", str(count))
        for name, parameter in (("ContinuationToken", "continuation-token"), ("StartAfter", "start-after")):
            value = target.param(parameter)
            if value:
                root.add(name, request.text(value) if name == "StartAfter" else value)
        if following is not None:
            root.add("NextContinuationToken", urlsafe_b64encode(following.encode()).decode())
    else:
        root.add("Marker", request.text(request.after))
        if following is not None:
            root.add("NextMarker", request.text(following))
    root.add("MaxKeys", str(request.max_keys))
    if request.delimiter:
        root.add("Delimiter", request.text(request.delimiter))
    if request.encodes:
        root.add("EncodingType", "url")
    root.add("IsTruncated", "true" if following is not None else "false")
    return root


def _contents(request: _ListingRequest, entry: ResourceEntry) -> list[Element]:
    return [
        Element("Key", request.text(entry.name)),
        Element("LastModified", format_document_time(entry.modified_at)),
        Element("ETag", entry.etag or _opaque_etag(entry)),  # oss2 reads no entry without one
        Element("Size", str(entry.size)),
        Element("StorageClass", "STANDARD"),
    ]
