"""The checksums of S3 requests: computed piece by piece, encoded in base64, big-endian.

    x-amz-checksum-<algorithm>   as a header or an aws-chunked trailer: crc32, crc32c, crc64nvme, sha1, sha256, ...
    content-md5                  as a header

A malformed value is refused at once; a wrong value is found at the end of the body. An algorithm that can't be computed
here is refused as well: an unverified checksum is never forwarded as a verified one.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from hashlib import md5, sha1, sha256, sha512
from hmac import compare_digest
from types import MappingProxyType
from typing import Final, Protocol

from fastcrc import crc32

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error

PREFIX: Final = "x-amz-checksum-"
# Headers with the same prefix that are no checksums.
_NOT_CHECKSUMS: Final = frozenset((PREFIX + "algorithm", PREFIX + "mode", PREFIX + "type"))
KNOWN_ELSEWHERE: Final = frozenset(("xxhash3", "xxhash64", "xxhash128"))
"""Algorithms of S3 that are not computed here."""


class Hasher(Protocol):
    """Computes a digest of a body piece by piece, with the interface of hashlib."""

    def update(self, data: Piece, /) -> None:
        """Adds the next bytes."""

    def digest(self) -> bytes:
        """The digest of the bytes so far."""


class _Crc:
    """A CRC function with the interface of a Hasher; the function gets the previous value."""

    __slots__ = ("_function", "_size", "_value")

    def __init__(self, function: Callable[[Piece, int], int], size: int) -> None:
        self._function, self._size, self._value = function, size, 0

    def update(self, data: Piece, /) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


def _insecure_md5() -> Hasher:
    return md5(usedforsecurity=False)


def _insecure_sha1() -> Hasher:
    return sha1(usedforsecurity=False)


def _crc64nvme() -> Hasher:
    from awscrt import checksums  # noqa: PLC0415 # takes 40 ms, so only when an upload needs it: docs/decisions/0023

    return _Crc(checksums.crc64nvme, 8)


_HASHERS: Final[Mapping[str, Callable[[], Hasher]]] = MappingProxyType(
    {
        "crc32": lambda: _Crc(crc32.iso_hdlc, 4),
        "crc32c": lambda: _Crc(crc32.iscsi, 4),
        "crc64nvme": _crc64nvme,
        "md5": _insecure_md5,
        "sha1": _insecure_sha1,
        "sha256": sha256,
        "sha512": sha512,
    }
)
_SIZES: Final = MappingProxyType(
    {"crc32": 4, "crc32c": 4, "crc64nvme": 8, "md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}
)
"""Bytes of a digest."""


def hasher(algorithm: str) -> Hasher:
    """A new hasher. Raises KeyError for an algorithm that `algorithm_of` never returns."""
    return _HASHERS[algorithm]()


def algorithm_of(header: str) -> str:
    """The algorithm of a checksum header or trailer with that lower-case name. Raises S3Error NotImplemented."""
    algorithm = "md5" if header == "content-md5" else header.removeprefix(PREFIX)
    if algorithm not in _HASHERS or (header != "content-md5" and not header.startswith(PREFIX)):
        raise S3Error("NotImplemented", f"The checksum {header} is not implemented.")
    return algorithm


def is_checksum(name: str, *, computable: bool = False) -> bool:
    """Whether a header, in any case, is a checksum's; with `computable`, of a checksum that Forebay can compute."""
    lower = name.lower()
    if not lower.startswith(PREFIX) or lower in _NOT_CHECKSUMS:
        return False
    return not computable or lower.removeprefix(PREFIX) in _HASHERS


def encode(digest: bytes) -> str:
    """The header value of a digest."""
    return b64encode(digest).decode("ascii")


def digest_in(value: str) -> bytes:
    """The digest in a header value that was found to be right."""
    return a2b_base64(value.strip(" \t"))


def encoded_size(header: str) -> int:
    """Characters in the value of a checksum header. Raises S3Error NotImplemented."""
    return -(-_SIZES[algorithm_of(header)] // 3) * 4


def decode(header: str, value: str, location: str = "header") -> bytes:
    """The digest in the value of a header or trailer.

    Raises S3Error InvalidDigest (content-md5) or InvalidRequest if the value is no digest. `location`: for its message.
    """
    try:
        digest = a2b_base64(value.encode("ascii"), strict_mode=True)
    except (Base64Error, UnicodeEncodeError):
        digest = b""
    if len(digest) != _SIZES[algorithm_of(header)]:
        if header == "content-md5":
            raise S3Error("InvalidDigest", **{"Content-MD5": value})
        raise S3Error("InvalidRequest", f"Value for {header} {location} is invalid.")
    return digest


class ChecksumCheck:
    """Compares one declared checksum with the bytes of one body."""

    __slots__ = ("_hasher", "_in_base64", "expected", "header")

    def __init__(self, header: str, expected: bytes | None = None, *, in_base64: bool = False) -> None:
        """`header`: lower-case name. `expected`: None for a trailer, which is not known before the end of the body.

        `in_base64`: whether the error for a wrong MD5 repeats it in base64 instead of hex. S3 does both.
        """
        self.header = header
        self.expected = expected
        self._in_base64 = in_base64
        self._hasher = hasher(algorithm_of(header))

    @property
    def is_slow(self) -> bool:
        """Whether it takes more than a CRC does, 0.05 ns a byte."""
        return not isinstance(self._hasher, _Crc)

    def update(self, data: Piece) -> None:
        """Adds the next bytes of the body."""
        self._hasher.update(data)

    def finish(self, trailers: Mapping[str, str]) -> str:
        """The verified checksum, as a header value.

        Raises S3Error BadDigest if the declared checksum is another, InvalidRequest if its trailer is missing.
        """
        expected, computed = self.expected, self._hasher.digest()
        if expected is None:
            if self.header not in trailers:
                raise S3Error("InvalidRequest", f"The trailer {self.header} was announced and did not come.")
            expected = decode(self.header, trailers[self.header], "trailing header")
        if not compare_digest(expected, computed):
            raise self._mismatch(expected, computed)
        return encode(computed)

    def _mismatch(self, expected: bytes, computed: bytes) -> S3Error:
        if self.header != "content-md5":
            algorithm = self.header.removeprefix(PREFIX).upper()
            return S3Error("BadDigest", f"The {algorithm} you specified did not match the calculated checksum.")
        declared = encode(expected) if self._in_base64 else expected.hex()
        return S3Error("BadDigest", ExpectedDigest=declared, CalculatedDigest=encode(computed))
