"""The checksums of an object or a part: as headers, and as elements of S3's documents about the same.

    x-amz-checksum-crc32: AAAAAA==        <ChecksumCRC32>AAAAAA==</ChecksumCRC32>          results, ListParts
                                          <ChecksumAlgorithm>CRC32</ChecksumAlgorithm>     listings of objects
    x-amz-checksum-type: FULL_OBJECT      <ChecksumType>FULL_OBJECT</ChecksumType>         both

A checksum of the type COMPOSITE is that of the parts' checksums, and ends in `-N`, the number of parts.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
"""

from functools import lru_cache
from itertools import compress
from typing import Final

from forebay.core.heads import HeaderPairs
from forebay.protocol.body.checksums import PREFIX, is_checksum

ALGORITHM: Final = f"{PREFIX}algorithm"
TYPE: Final = f"{PREFIX}type"
FULL: Final = "FULL_OBJECT"
COMPOSITE: Final = "COMPOSITE"
_ALGORITHM_ELEMENT: Final = "ChecksumAlgorithm"
_TYPE_ELEMENT: Final = "ChecksumType"


def checksums_in(headers: HeaderPairs) -> HeaderPairs:
    """The checksums among headers, without their type."""
    if not headers:
        return ()
    names, _ = zip(*headers, strict=True)
    kept = _checksums_among(names)
    return () if kept is None else tuple(compress(headers, kept))


@lru_cache(maxsize=256)  # the requests of a client have the same names each time
def _checksums_among(names: tuple[str, ...]) -> tuple[bool, ...] | None:
    """Returns whether each name is that of a checksum; None: none is."""
    kept = tuple([is_checksum(name) for name in names])
    return kept if any(kept) else None


def with_checksum_type(headers: HeaderPairs) -> HeaderPairs:
    """The checksums among the headers of an object, and their type."""
    found = checksums_in(headers)
    return (*found, (TYPE, COMPOSITE if "-" in found[0][1] else FULL)) if found else ()


def element_name(header: str) -> str:
    """The element that has the value of a checksum header."""
    return f"Checksum{header.lower().removeprefix(PREFIX).upper()}"


def checksum_elements(headers: HeaderPairs) -> HeaderPairs:
    """The checksums among headers, their type and the algorithm of an upload, as the elements of a result or of
    ListParts."""
    names = {ALGORITHM: _ALGORITHM_ELEMENT, TYPE: _TYPE_ELEMENT}
    return tuple(
        (names.get(name.lower()) or element_name(name), value)
        for name, value in headers
        if name.lower() in names or is_checksum(name)
    )


def listed_elements(headers: HeaderPairs) -> HeaderPairs:
    """The algorithms and the type of the checksums among an object's headers, as the elements of a listing."""
    algorithms = tuple((_ALGORITHM_ELEMENT, name[len(PREFIX) :].upper()) for name, _ in checksums_in(headers))
    kinds = tuple((_TYPE_ELEMENT, value) for name, value in headers if name.lower() == TYPE)
    return algorithms + kinds[:1]
