"""Writes a page of ListObjects or ListObjectsV2 from the entries of an origin's listing.

The entries are the origin's own XML (forebay.protocol.xml.entry_rows), the fields above them are those that the S3 API
documents. So a page has the elements that the origin's page would have; their order is Amazon's.

    Name Prefix (Marker | StartAfter ContinuationToken) MaxKeys Delimiter EncodingType IsTruncated
    (NextMarker | NextContinuationToken KeyCount)  Contents...  CommonPrefixes...

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjects.html
"""

from collections.abc import Sequence
from typing import NamedTuple

from forebay.protocol.listing_query import ListingQuery, StartPoint
from forebay.protocol.xml.entry_rows import EntryRun
from forebay.protocol.xml.listed_page import KeyEncoding
from forebay.protocol.xml.xml_tree import DECLARATION, NOT_XML, S3_NAMESPACE, escape_text


class PageForm(NamedTuple):
    """The properties that pages of one namespace have in common."""

    encoding: KeyEncoding
    owners: Sequence[str]
    """The Owner elements that marks in the entries stand for."""
    echoed_max_keys: str | None
    """The `max-keys` that the origin returns for a number above its own limit; None: the number of the request."""
    limit: int
    """Names of a page, at most."""


class PageEntries(NamedTuple):
    """The names of a page, in order, and whether there are more."""

    runs: Sequence[EntryRun]
    """The entries."""
    prefixes: Sequence[str]
    is_truncated: bool

    @property
    def names(self) -> int:
        """The number of names."""
        return len(self.prefixes) + sum(run.stop - run.first for run in self.runs)


def is_writable(query: ListingQuery, entries: PageEntries) -> bool:
    """Whether the page can be written: without `encoding-type=url`, origins differ in how they write characters that
    XML lacks."""
    if query.is_encoded:
        return True
    keys = (key for run in entries.runs if not run.rows.is_plain for key in run.keys)
    names = (*keys, *entries.prefixes, query.prefix, query.delimiter, query.marker, query.start_after or "")
    return not NOT_XML.search("".join(names))


def listing_document(query: ListingQuery, entries: PageEntries, form: PageForm) -> bytes:
    """The document of a page."""
    write = form.encoding.encode if query.is_encoded else escape_text
    last = _last_point(entries)
    fields = [("Name", escape_text(query.bucket)), ("Prefix", write(query.prefix))]
    if query.version == 1:
        fields.append(("Marker", write(query.marker)))
    else:
        if query.start_after is not None:
            fields.append(("StartAfter", write(query.start_after)))
        if query.token is not None:
            fields.append(("ContinuationToken", escape_text(query.token)))
    fields.append(("MaxKeys", _max_keys(query, form)))
    if query.delimiter:
        fields.append(("Delimiter", write(query.delimiter)))
    if query.is_encoded:
        fields.append(("EncodingType", "url"))
    fields.append(("IsTruncated", "true" if entries.is_truncated else "false"))
    if entries.is_truncated:
        if query.version == 2:
            fields.append(("NextContinuationToken", last.token()))
        elif query.delimiter:
            fields.append(("NextMarker", write(last.name)))
    if query.version == 2:
        fields.append(("KeyCount", str(entries.names)))
    head = [DECLARATION, f'<ListBucketResult xmlns="{S3_NAMESPACE}">']
    head += [f"<{name}>{text}</{name}>" for name, text in fields]
    tail = [f"<CommonPrefixes><Prefix>{write(prefix)}</Prefix></CommonPrefixes>" for prefix in entries.prefixes]
    tail.append("</ListBucketResult>")
    owners = form.owners if query.has_owner else None
    contents = [run.rows.contents(run.first, run.stop, owners, is_encoded=query.is_encoded) for run in entries.runs]
    return b"".join(("".join(head).encode(), *contents, "".join(tail).encode()))


def _max_keys(query: ListingQuery, form: PageForm) -> str:
    if query.max_keys is None:
        return str(form.limit)
    if query.max_keys > form.limit and form.echoed_max_keys is not None:
        return form.echoed_max_keys
    return str(query.max_keys)


def _last_point(entries: PageEntries) -> StartPoint:
    key, prefix = [run.rows.keys[run.stop - 1] for run in entries.runs[-1:]], entries.prefixes[-1:]
    if prefix and (not key or prefix[0] > key[0]):
        return StartPoint(prefix[0], "prefix")
    return StartPoint(key[0]) if key else StartPoint()
