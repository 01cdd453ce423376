"""S3's additional checksums: base64 of the big-endian value.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html. The CRCs are those of awscrt,
the SDKs' own implementation.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Final

from awscrt import checksums


def _crc32(body: bytes | memoryview) -> bytes:
    return int(checksums.crc32(body)).to_bytes(4, "big")


def _crc32c(body: bytes | memoryview) -> bytes:
    return int(checksums.crc32c(body)).to_bytes(4, "big")


def _crc64nvme(body: bytes | memoryview) -> bytes:
    return int(checksums.crc64nvme(body)).to_bytes(8, "big")


ALGORITHMS: Final[dict[str, Callable[[bytes | memoryview], bytes]]] = {
    "crc32": _crc32,
    "crc32c": _crc32c,
    "crc64nvme": _crc64nvme,
    "sha1": lambda body: hashlib.sha1(body, usedforsecurity=False).digest(),
    "sha256": lambda body: hashlib.sha256(body).digest(),
}
DEFAULT_CHECKSUM = "crc64nvme"  # what S3 computes when the client sent none


def composite_of(algorithm: str, parts: Iterable[str]) -> str:
    """That of an upload's parts together, from the checksum of each: of their digests, and how many they are."""
    digests = [base64.b64decode(each) for each in parts]
    return f"{digest_of(algorithm, b''.join(digests))}-{len(digests)}"


def type_of(checksum: str) -> str:
    """Of what bytes a checksum is."""
    return "COMPOSITE" if "-" in checksum else "FULL_OBJECT"


def digest_of(algorithm: str, body: bytes | memoryview) -> str:
    """The checksum as it stands in `x-amz-checksum-<algorithm>`."""
    return base64.b64encode(ALGORITHMS[algorithm](body)).decode()
