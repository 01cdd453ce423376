"""Object metadata: the headers of a write that become the object's own, whatever its bytes. Its checksums are in
protocol.body.checksum_headers.

The same bytes have the same ETag whatever their metadata. So what an attempt, or an earlier run, has left at the origin
is a write's own effect only where the metadata is the write's as well.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html
"""

from functools import lru_cache
from itertools import compress
from typing import Final

from forebay.core.heads import HeaderPairs

_HEADERS: Final = frozenset(
    {"cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"}
)


def metadata_in(headers: HeaderPairs) -> HeaderPairs:
    """Returns the metadata among the headers of a write."""
    if not headers:
        return ()
    names, _ = zip(*headers, strict=True)
    return tuple(compress(headers, _metadata_among(names)))


def has_same_metadata(first: HeaderPairs, second: HeaderPairs) -> bool:
    """Returns whether two objects have the same metadata, as far as it can be compared: an origin may write a value in
    another way. Their checksums are not compared, as few answers have them."""
    return _metadata(first) == _metadata(second)


def _metadata(headers: HeaderPairs) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in metadata_in(headers):
        found.setdefault(name.lower(), []).append(value.strip())
    return found


@lru_cache(maxsize=256)  # the requests of a client have the same names each time
def _metadata_among(names: tuple[str, ...]) -> tuple[bool, ...]:
    """Returns whether each name is that of metadata."""
    return tuple([lower in _HEADERS or lower.startswith("x-amz-meta-") for lower in map(str.lower, names)])
