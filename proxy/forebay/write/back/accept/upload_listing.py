"""Upload listings: ListMultipartUploads with the uploads of the journal among those of the origin.

    origin's page    a/1   c/1       up to c/1, and more behind
    journal          a     b     d
    page             a/1   a   b   c/1   d is behind the page

Uploads are ordered by key; of one key, those of the origin come first, in its order, then those of the journal by id.
So a page continues behind (key, upload id): if the id is of the journal, the origin has no more uploads of that key.
Not shown are uploads of the origin that stand for one of the journal: moved ones, and those that carry a completion out
(write.back.drain.own_uploads). Where that leaves a page empty, it goes on behind the last one of the origin's page.

A page accounts for all keys below its last one, or for all that are left.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListMultipartUploads.html
"""

from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from forebay.core.errors import MalformedXml, OriginBroken, S3Error
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origins import Origins
from forebay.protocol.body.checksum_headers import checksum_elements
from forebay.protocol.body.part_checksums import created_facts
from forebay.protocol.dates import format_document_time
from forebay.protocol.listing_query import LAST_CHARACTER
from forebay.protocol.target import Target
from forebay.protocol.xml.xml_tree import S3_NAMESPACE, Element, read_tree, write_tree
from forebay.storage.journal.pending_objects import PendingObjects
from forebay.write.back.drain.own_uploads import OwnUploads
from forebay.write.back.pending.pending_uploads import PendingUpload, PendingUploads, is_local

MOST_UPLOADS: Final = 1000
_ORIGIN, _JOURNAL = 0, 1
"""The order within one key."""
_MAX_BYTES: Final = 16 << 20
_MAX_ELEMENTS: Final = 50_000


@dataclass(frozen=True, slots=True)
class UploadQuery:
    """One page of a listing."""

    bucket: str
    prefix: str
    delimiter: str
    """Empty: none."""
    key_marker: str
    id_marker: str
    """The page goes on behind this upload of the key `key_marker`; empty: behind the key."""
    most: int
    is_encoded: bool
    """Whether names are percent-encoded in the answer."""


class _Listed(NamedTuple):
    """A row of a page, in its order."""

    name: str
    """A key, or a common prefix."""
    source: int
    position: int
    upload_id: str
    """Empty: a common prefix."""
    element: Element


def parse_upload_query(target: Target) -> UploadQuery:
    """Returns the query of a ListMultipartUploads. Raises S3Error."""
    most = target.param("max-uploads") or str(MOST_UPLOADS)
    if not most.isascii() or not most.isdecimal() or len(most) > 9:
        raise S3Error("InvalidArgument", "max-uploads is a number.", ArgumentName="max-uploads")
    encoding = target.param("encoding-type") or ""
    if encoding not in {"", "url"}:
        raise S3Error("InvalidArgument", "The encoding can only be url.", ArgumentName="encoding-type")
    key_marker = target.param("key-marker") or ""
    return UploadQuery(
        target.bucket or "",
        target.param("prefix") or "",
        target.param("delimiter") or "",
        key_marker,
        (target.param("upload-id-marker") or "") if key_marker else "",  # as S3 has it
        min(int(most), MOST_UPLOADS),
        encoding == "url",
    )


class UploadListings:
    """Answers ListMultipartUploads while the journal has uploads, or carries completed ones out."""

    def __init__(self, uploads: PendingUploads, pending: PendingObjects, own: OwnUploads, origins: Origins) -> None:
        self._uploads = uploads
        self._pending = pending
        self._own = own
        self._origins = origins

    async def answer(self, target: Target) -> bytes | None:
        """Returns the page; None: the origin's own page is complete, or has the error. Raises S3Error, OriginError,
        Throttled."""
        own = [
            each
            for each in self._uploads.by_id.values()
            if each.upload.name.bucket == target.bucket
            and each.upload.name.key.startswith(target.param("prefix") or "")
        ]
        is_carried_out = self._pending.any(lambda name: name.bucket == target.bucket)
        if not (own or is_carried_out or self._own.has_left) and not is_local(target.param("upload-id-marker") or ""):
            return None
        query = parse_upload_query(target)
        if not query.most:
            return None
        try:
            page = await self._origin_page(query)
            if page is None:
                return None
            is_truncated = page.text_at("IsTruncated").lower() == "true"
            listed = _of_origin(page, query)
        except (MalformedXml, ValueError):
            raise OriginBroken("a listing of uploads: no document") from None
        last = listed[-1].name if is_truncated and listed else None
        if is_truncated and last is None:
            raise OriginBroken("a listing of uploads: it does not go on")
        local = [each for each in _of_journal(own, query) if last is None or each.name < last]
        hidden = await self._own.find([each.upload_id for each in listed if each.upload_id])
        hidden |= {each.origin_id for each in own} - {""}
        at_origin = [each for each in listed if each.upload_id not in hidden]
        merged = sorted(_unique([*at_origin, *local]), key=lambda each: each[:3])
        shown, marker = merged[: query.most], listed[-1] if is_truncated else None
        return _document(query, shown, shown[-1] if len(merged) > query.most else marker)

    async def _origin_page(self, query: UploadQuery) -> Element | None:
        fields = [("prefix", query.prefix), ("delimiter", query.delimiter)]
        if is_local(query.id_marker):
            fields.append(("key-marker", query.key_marker))
        elif query.key_marker:
            is_prefix = not query.id_marker and _rolled(query.key_marker, query) == query.key_marker
            fields.append(("key-marker", query.key_marker + (LAST_CHARACTER if is_prefix else "")))
            fields.append(("upload-id-marker", query.id_marker))
        parameters = tuple(pair for pair in fields if pair[1])
        request = OriginRequest(
            "GET",
            query.bucket,
            query=(("uploads", ""), *parameters, ("max-uploads", str(query.most)), ("encoding-type", "url")),
            operation="ListMultipartUploads",
        )
        async with await self._origins.send(request) as answer:
            document = await answer.read(_MAX_BYTES)
            if answer.status != 200:
                return None
        return read_tree(document, max_size=_MAX_BYTES, max_elements=_MAX_ELEMENTS)


def _of_origin(page: Element, query: UploadQuery) -> list[_Listed]:
    is_encoded = page.text_at("EncodingType") == "url"

    def name_of(element: Element, field: str) -> str:
        text = element.text_at(field)
        return unquote(text.replace("+", " ")) if is_encoded else text

    found = []
    for position, each in enumerate(page.all("Upload")):
        key = name_of(each, "Key")
        rest = [child for child in each.children if child.name not in {"Key", "UploadId"}]
        upload_id = each.text_at("UploadId")
        found.append(_Listed(key, _ORIGIN, position, upload_id, _row(query, key, upload_id, *rest)))
    found += [_prefix_row(query, name_of(each, "Prefix")) for each in page.all("CommonPrefixes")]
    return sorted(found, key=lambda each: each[:3])


def _of_journal(uploads: list[PendingUpload], query: UploadQuery) -> list[_Listed]:
    """The rows of the journal's uploads behind the marker."""
    found: dict[str, _Listed] = {}
    after = (query.key_marker, query.id_marker if is_local(query.id_marker) else "")
    for position, each in enumerate(sorted(uploads, key=lambda each: each.upload.upload_id)):
        key, upload_id = each.upload.name.key, each.upload.upload_id
        rolled = _rolled(key, query)
        if rolled is not None:
            if rolled > query.key_marker:
                found[rolled] = _prefix_row(query, rolled)
        elif (key, upload_id) > after if query.id_marker else key > query.key_marker:
            facts = (
                *(Element(field, text) for field, text in checksum_elements(created_facts(each.upload.headers))),
                Element("StorageClass", "STANDARD"),
                Element("Initiated", format_document_time(each.upload.accepted_at)),
            )
            row = _row(query, key, upload_id, *facts)
            found[upload_id] = _Listed(key, _JOURNAL, position, upload_id, row)
    return list(found.values())


def _unique(rows: list[_Listed]) -> list[_Listed]:
    """Returns the rows with each common prefix once: both sources may have it."""
    return list({(each.name, each.upload_id): each for each in rows}.values())


def _rolled(key: str, query: UploadQuery) -> str | None:
    """The common prefix that a key is part of; None: it is listed itself."""
    found = key.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
    return key[: found + len(query.delimiter)] if found >= 0 else None


def _prefix_row(query: UploadQuery, prefix: str) -> _Listed:
    element = Element("CommonPrefixes", "", [Element("Prefix", _written(query, prefix))])
    return _Listed(prefix, _ORIGIN, -1, "", element)


def _row(query: UploadQuery, key: str, upload_id: str, *facts: Element) -> Element:
    return Element("Upload", "", [Element("Key", _written(query, key)), Element("UploadId", upload_id), *facts])


def _written(query: UploadQuery, name: str) -> str:
    return quote(name, safe="/") if query.is_encoded else name


def _document(query: UploadQuery, rows: list[_Listed], marker: _Listed | None) -> bytes:
    """`marker`: what the next page goes on behind; None: there is none."""
    root = Element("ListMultipartUploadsResult")
    fields = [
        ("Bucket", query.bucket),
        ("KeyMarker", _written(query, query.key_marker)),
        ("UploadIdMarker", query.id_marker),
        ("NextKeyMarker", _written(query, marker.name) if marker is not None else ""),
        ("NextUploadIdMarker", marker.upload_id if marker is not None else ""),
        ("Prefix", _written(query, query.prefix)),
        ("Delimiter", _written(query, query.delimiter)),
        ("EncodingType", "url" if query.is_encoded else ""),
        ("MaxUploads", str(query.most)),
        ("IsTruncated", "true" if marker is not None else "false"),
    ]
    for field, text in fields:
        if text or field not in {"Delimiter", "EncodingType"}:
            root.add(field, text)
    for kind in ("Upload", "CommonPrefixes"):
        root.children += [each.element for each in rows if each.element.name == kind]
    return write_tree(root, S3_NAMESPACE)
