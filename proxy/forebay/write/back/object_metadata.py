"""Object metadata: the headers of a write that become the object's own.

The same bytes have the same ETag whatever their metadata. So what an attempt, or an earlier run, has left at the origin
is a write's own effect only where the metadata is the write's as well.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html
"""

from typing import Final

from forebay.core.heads import HeaderPairs

_HEADERS: Final = frozenset(
    {"cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"}
)


def is_of_object(name: str) -> bool:
    """Returns whether a header of a write is one of the object that it makes; its checksums are among them."""
    return _is_metadata(name.lower()) or is_checksum(name)


def is_checksum(name: str) -> bool:
    """Returns whether a header has a checksum of the object."""
    lower = name.lower()
    return lower.startswith("x-amz-checksum-") and lower not in {"x-amz-checksum-algorithm", "x-amz-checksum-type"}


def checksum_headers(headers: HeaderPairs) -> HeaderPairs:
    """Returns the checksums among the headers of a write."""
    return tuple(pair for pair in headers if is_checksum(pair[0]))


def has_same_metadata(first: HeaderPairs, second: HeaderPairs) -> bool:
    """Returns whether two objects have the same metadata, as far as it can be compared: an origin may write a value in
    another way. Their checksums are not compared, as few answers have them."""
    return _metadata(first) == _metadata(second)


def _metadata(headers: HeaderPairs) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        if _is_metadata(lower := name.lower()):
            found.setdefault(lower, []).append(value.strip())
    return found


def _is_metadata(lower: str) -> bool:
    return lower in _HEADERS or lower.startswith("x-amz-meta-")
