"""The checksums that S3 requests carry: computed as the bytes go by, written in base64, big-endian.

    x-amz-checksum-<algorithm>   as a header or an aws-chunked trailer: crc32, crc32c, crc64nvme, sha1, sha256, ...
    content-md5                  as a header

A value that can't be one is refused at once; a value that is not the body's is found when the body has ended.
An algorithm that can't be computed here is refused, too: what was not checked is never passed on as if it had been.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from hashlib import md5, sha1, sha256, sha512
from hmac import compare_digest
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from fastcrc import crc32

from forebay.core.errors import S3Error

Piece: TypeAlias = bytes | memoryview
"""A run of body bytes. Never written to once handed over."""

PREFIX: Final = "x-amz-checksum-"
# Of the same family of names, but not checksums.
_NO_CHECKSUMS: Final = frozenset((PREFIX + "algorithm", PREFIX + "mode", PREFIX + "type"))
KNOWN_ELSEWHERE: Final = frozenset(("xxhash3", "xxhash64", "xxhash128"))
"""Algorithms that S3 has and that are not computed here."""


class Hasher(Protocol):
    """Takes a body piece by piece; shaped like those of hashlib."""

    def update(self, data: Piece, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc:
    """A CRC function that takes the previous value, as a Hasher."""

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
    from awscrt import checksums  # noqa: PLC0415 # 40 ms of a start, once an upload has this one: docs/decisions/0023

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
    """A fresh hasher. KeyError for an algorithm that `algorithm_of` never gives."""
    return _HASHERS[algorithm]()


def algorithm_of(header: str) -> str:
    """The algorithm of a checksum header or trailer, by its lower-case name. S3Error NotImplemented if unknown."""
    algorithm = "md5" if header == "content-md5" else header.removeprefix(PREFIX)
    if algorithm not in _HASHERS or (header != "content-md5" and not header.startswith(PREFIX)):
        raise S3Error("NotImplemented", f"The checksum {header} is not implemented.")
    return algorithm


def is_checksum(name: str, *, computable: bool = False) -> bool:
    """Whether a lower-case header name is that of a checksum; if `computable`, of one that is computed here."""
    if not name.startswith(PREFIX) or name in _NO_CHECKSUMS:
        return False
    return not computable or name.removeprefix(PREFIX) in _HASHERS


def encode(digest: bytes) -> str:
    """As it stands in a header."""
    return b64encode(digest).decode("ascii")


def encoded_size(header: str) -> int:
    """How many characters the value of a checksum header has. S3Error NotImplemented if unknown."""
    return -(-_SIZES[algorithm_of(header)] // 3) * 4


def decode(header: str, value: str, location: str = "header") -> bytes:
    """The digest that a header or trailer gives. S3Error InvalidDigest (content-md5), InvalidRequest if it is none."""
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
    """One checksum of one body: what was said, and what comes by."""

    __slots__ = ("_expected", "_hasher", "_in_base64", "header")

    def __init__(self, header: str, expected: bytes | None = None, *, in_base64: bool = False) -> None:
        """`header` is lower-case. `expected` is None for a trailer, which is not known before the end. `in_base64`: how
        the MD5 that was given is told again if it is wrong; otherwise in hex. S3 does both."""
        self.header = header
        self._expected = expected
        self._in_base64 = in_base64
        self._hasher = hasher(algorithm_of(header))

    def update(self, data: Piece) -> None:
        self._hasher.update(data)

    def finish(self, trailers: Mapping[str, str]) -> str:
        """The value that was found to be right, as it stands in a header.

        S3Error BadDigest if it is not the one that was said, InvalidRequest if none was said.
        """
        expected, found = self._expected, self._hasher.digest()
        if expected is None:
            if self.header not in trailers:
                raise S3Error("InvalidRequest", f"The trailer {self.header} was announced and did not come.")
            expected = decode(self.header, trailers[self.header], "trailing header")
        if not compare_digest(expected, found):
            raise self._mismatch(expected, found)
        return encode(found)

    def _mismatch(self, expected: bytes, found: bytes) -> S3Error:
        if self.header != "content-md5":
            algorithm = self.header.removeprefix(PREFIX).upper()
            return S3Error("BadDigest", f"The {algorithm} you specified did not match the calculated checksum.")
        told = encode(expected) if self._in_base64 else expected.hex()
        return S3Error("BadDigest", ExpectedDigest=told, CalculatedDigest=encode(found))
