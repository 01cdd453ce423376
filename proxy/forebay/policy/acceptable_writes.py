"""Acceptable writes: those that may be acknowledged before the origin has them.

An allow-list: a write that is not known to have the same effect an hour later goes through. So a write with a
condition, an ACL, tags, a lock, a key of the client's own, or a header that Forebay does not know is carried out at the
origin, after the pending writes of its object.

    may be acknowledged here    goes through, and why
    PutObject                   a condition: the origin's state decides
    DeleteObject                x-amz-acl, x-amz-grant-*, x-amz-tagging, object lock: they need rights of their own
    multipart uploads           SSE-C: the key must not be written down; SSE-KMS: the ETag is not known beforehand
                                metadata beyond the limits of some origins: one of them would refuse it later
                                a key that some origins refuse: likewise
                                metadata outside ASCII: origins answer it in a form of their own (RFC 2047)
                                a repeated header of the object, an empty Content-Encoding, or one of aws-chunked
                                without that framing: origins keep them in different ways
                                a batch delete without a checksum: S3 and OSS refuse it
                                an expected owner, a version, an append: only the origin knows
                                a header that this origin alone has (Swift's X-Delete-After): only it obeys that

A bucket that encrypts with KMS by default shows that in its answers (`has_opaque_etags`): its writes go through too.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from forebay.protocol.body.checksums import is_checksum
from forebay.protocol.header_map import Headers
from forebay.protocol.xml.xml_tree import NOT_XML

OPERATIONS: Final = frozenset({"PutObject", "CopyObject", "DeleteObject", "DeleteObjects", "CreateMultipartUpload"})
"""The operations that may be acknowledged here."""

_QUERY: Final = frozenset({"x-id", "uploads", "delete"})
_HEADERS: Final = frozenset(
    {
        "x-amz-content-sha256",
        "x-amz-copy-source",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-metadata-directive",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-te",
        "x-amz-trailer",
        "x-amz-user-agent",
    }
)
_METADATA: Final = "x-amz-meta-"
_CHECKSUM: Final = "x-amz-checksum-"
MOST_METADATA: Final = 2048
"""Bytes of all names and values of an object's own metadata: the limit of S3, the lowest one."""
_LONGEST_NAME: Final = 128
_LONGEST_VALUE: Final = 256
"""Bytes of one name and one value, and how many there are: the limits of Swift."""
_MOST_NAMES: Final = 90
_LONGEST_KEY: Final = 1023
"""Bytes: the limit of OSS, one less than that of S3."""
_LONGEST_SEGMENT: Final = 255
"""Bytes between two slashes of a key: the limit of MinIO, whose objects are files
(https://min.io/docs/minio/linux/operations/concepts/thresholds.html)."""
_REFUSED_SEGMENT: Final = re.compile(r"(?:^|/)(?:\.{0,2}/|\.{1,2}$)")
"""Empty, `.` or `..`, which MinIO refuses; a slash at the end is none."""
_DEFAULT_CLASS: Final = ("x-amz-storage-class", "STANDARD")
"""The default of a bucket, which s3cmd sends with every write."""
_ENCRYPTION: Final = "x-amz-server-side-encryption"
_FACTS: Final = ("cache-control", "content-", "expires", _METADATA)
"""Beginnings of the headers that an object is stored with."""
_ENCODING: Final = "Content-Encoding"
_DECODED_LENGTH: Final = "x-amz-decoded-content-length"
_CONDITIONS: Final = frozenset({"if-match", "if-none-match", "if-modified-since", "if-unmodified-since"})


def has_opaque_etags(headers: Headers) -> bool:
    """Whether an origin's answer to a write says that the ETag is no MD5, since the object is encrypted with KMS.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html
    """
    s3, oss = headers.get(_ENCRYPTION, ""), headers.get("x-oss-server-side-encryption", "")
    return s3.lower().startswith("aws:kms") or oss.upper() == "KMS"


def obstacle(
    operation: str, query: Iterable[str], headers: Headers, extensions: frozenset[str] = frozenset()
) -> str | None:
    """Returns why a write has to go through, in words; None: it may be acknowledged here.

    `query`: the names of its parameters, without those of a signature; both in S3's terms. `extensions`: lower-case
    names of headers that the origin has in addition to S3's.
    """
    if operation not in OPERATIONS:
        return f"{operation} is always carried out at the origin"
    for name in query:
        if name.lower() not in _QUERY:
            return f"its parameter {name}"
    names = tuple(headers)  # a repeated name is one key
    if operation == "DeleteObjects" and not _has_checksum(headers):
        return "the missing checksum of its list"
    if extensions and (extended := _extension_in(names, extensions)) is not None:
        return f"its header {extended}"
    coding = headers.get(_ENCODING)
    if coding is not None and (not coding or ("aws-chunked" in coding.lower() and _DECODED_LENGTH not in headers)):
        return f"the value of its header {_ENCODING}"
    if len(headers) != len(names) and (repeated := _repeated_fact(headers)) is not None:
        return f"its repeated header {repeated}"
    if _are_plain(names):
        return None
    metadata: list[tuple[int, int]] = []
    for name, value in headers.items():
        lower = name.lower()
        if lower.startswith(_METADATA):
            if not value.isascii():
                return f"the value of its header {name}"
            metadata.append((len(name) - len(_METADATA), len(value)))
            continue
        if (lower, value) == _DEFAULT_CLASS:
            continue
        if lower in _CONDITIONS:
            return f"its condition {name}"
        if lower.startswith(("x-amz-", "x-oss-")) and lower not in _HEADERS and not lower.startswith(_CHECKSUM):
            return f"its header {name}"
    return "its large metadata" if metadata and _is_large(metadata) else None


def key_obstacle(key: str) -> str | None:
    """Returns why a write of this key has to go through, in words; None: every origin takes such a key."""
    encoded = key.encode("utf-8", "surrogatepass")
    if len(encoded) > _LONGEST_KEY:
        return "its long key"
    if NOT_XML.search(key):
        return "a character of its key"
    if _REFUSED_SEGMENT.search(key) or (
        len(encoded) > _LONGEST_SEGMENT and max(map(len, encoded.split(b"/"))) > _LONGEST_SEGMENT
    ):
        return "a segment of its key"
    return None


def _has_checksum(headers: Headers) -> bool:
    """Whether a request names a checksum of its body."""
    return "Content-MD5" in headers or "x-amz-trailer" in headers or any(map(is_checksum, headers))


def _repeated_fact(headers: Headers) -> str | None:
    """Returns the name of a header of the object that is there more than once; None: there is none."""
    facts = (name for name in headers if name.lower().startswith(_FACTS))
    return next((name for name in facts if len(headers.getall(name)) > 1), None)


@lru_cache(maxsize=256)  # the requests of a client have the same names each time
def _extension_in(names: tuple[str, ...], extensions: frozenset[str]) -> str | None:
    """The first of these headers that the origin has in addition to S3's."""
    return next((name for name in names if name.lower() in extensions), None)


@lru_cache(maxsize=256)
def _are_plain(names: tuple[str, ...]) -> bool:
    """Whether headers of these names, with any values, are no obstacle."""
    return all(
        lower not in _CONDITIONS
        and (lower in _HEADERS or lower.startswith(_CHECKSUM) or not lower.startswith(("x-amz-", "x-oss-")))
        for lower in (name.lower() for name in names)
    )


def _is_large(metadata: Sequence[tuple[int, int]]) -> bool:
    """`metadata`: the bytes of each name and value."""
    return (
        len(metadata) > _MOST_NAMES
        or any(name > _LONGEST_NAME or value > _LONGEST_VALUE for name, value in metadata)
        or sum(map(sum, metadata)) > MOST_METADATA
    )
