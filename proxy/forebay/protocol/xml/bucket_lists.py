"""The documents of ListBuckets: pages of several origins are read, and one page of all of them is written.

The continuation token of the page that is written is the name of its last bucket.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListBuckets.html
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forebay.protocol.xml.xml_tree import S3_NAMESPACE, Element, read_tree, write_tree

MAX_SIZE: Final = 8 << 20
_MAX_ELEMENTS: Final = 60_000
_MAX_BUCKETS: Final = 10_000
_LIMIT: Final = re.compile("[1-9][0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class ListedBucket:
    """One bucket of a list."""

    name: str
    element: Element
    """The element that was listed."""


@dataclass(frozen=True, slots=True)
class BucketPage:
    """One page of one origin's list."""

    owner: Element | None
    buckets: tuple[ListedBucket, ...]
    token: str
    """The position of the next page; empty at the end."""


def read_bucket_page(body: bytes) -> BucketPage:
    """The page in a response to ListBuckets. Raises MalformedXml."""
    root = read_tree(body, max_size=MAX_SIZE, max_elements=_MAX_ELEMENTS)
    listed = (each for parent in root.all("Buckets") for each in parent.all("Bucket"))
    buckets = tuple(ListedBucket(each.text_at("Name"), each) for each in listed)
    return BucketPage(root.find("Owner"), buckets, root.text_at("ContinuationToken"))


def bucket_list(pages: Sequence[BucketPage], prefix: str, token: str, limit: str) -> bytes:
    """Returns the requested page of all buckets in `pages`. `prefix`, `token`, `limit`: as in the query, empty where it
    has none; an invalid limit is ignored."""
    most = min(int(limit), _MAX_BUCKETS) if _LIMIT.fullmatch(limit) else None
    names = {bucket.name: bucket for page in pages for bucket in page.buckets}
    wanted = [names[name] for name in sorted(names) if name.startswith(prefix) and name > token]
    shown = wanted[:most]
    root = Element("ListAllMyBucketsResult")
    owner = next((page.owner for page in pages if page.owner is not None), None)
    if owner is not None:
        root.children.append(owner)
    root.add("Buckets", "", *(bucket.element for bucket in shown))
    if len(shown) < len(wanted):
        root.add("ContinuationToken", shown[-1].name)
    if prefix:
        root.add("Prefix", prefix)
    return write_tree(root, S3_NAMESPACE)
