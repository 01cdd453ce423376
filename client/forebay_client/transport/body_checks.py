"""Body checks: compares a body with the length, range and checksum in the head of its response.

    length       http_transport: every body; two that differ, or what is no number, are refused
    range        Content-Range against the range that was requested; some servers (gofakes3, so `rclone serve s3`) send
                 the range with a 200, where HTTP has a 206: what Content-Length and Content-Range both say is believed
    checksum     of whole objects, where the response has one: x-amz-checksum-crc32, -sha256, -crc32c, -crc64nvme, and
                 OSS's x-oss-hash-crc64ecma; the last three where a library computes them (fastcrc, awscrt)

A checksum in the trailer of a chunked body is not verified: http.client drops trailers, as urllib3 does, so boto3 does
not verify one, either. S3 and OSS send theirs in the head.

Checksums are not asked for: over TLS the bytes are protected anyway, and computing one costs more than receiving them.
AWS_RESPONSE_CHECKSUM_VALIDATION=when_supported has S3 send them, as the SDKs do.
"""

import re
import zlib
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from typing import Final, NamedTuple

from forebay_client.transport.object_request import ObjectRequest, ObjectResponse, TransportFailed

_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)")


class ContentRange(NamedTuple):
    """The header Content-Range."""

    start: int
    end: int
    """The byte after the last."""
    size: int | None
    """Bytes of the whole object; None: not known."""


def content_range(response: ObjectResponse) -> ContentRange | None:
    """The Content-Range of a response; None where there is none."""
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    if found is None:
        return None
    return ContentRange(int(found[1]), int(found[2]) + 1, int(found[3]) if found[3] != "*" else None)


def check_length(response: ObjectResponse) -> None:
    """Checks that Content-Length is one number, where there is one. Raises TransportFailed: what two of them frame is
    not known (RFC 9112 section 6.3)."""
    text = response.headers.get("content-length", "0")
    if text.isascii() and text.isdecimal():
        return
    lengths = set(map(str.strip, text.split(",")))
    if len(lengths) != 1 or not all(each.isascii() and each.isdecimal() for each in lengths):
        raise TransportFailed(f"the length of the body is no number: {', '.join(sorted(lengths))[:100]}")


def is_unmarked_part(response: ObjectResponse) -> bool:
    """Whether the body of a 200 is the part of an object that Content-Range says."""
    found = content_range(response) if response.status == 200 else None
    if found is None or (found.start, found.end) == (0, found.size):
        return False
    return response.headers.get("content-length") == str(found.end - found.start)


def is_corrupt(request: ObjectRequest, response: ObjectResponse) -> bool:
    """Whether the body of a success is certainly not the one that the server sent."""
    if not response.has_checksum or request.method != "GET" or response.status != 200 or response.stream is not None:
        return False
    headers = response.headers
    # The checksum of an object of several parts may be one of their checksums: `-3` at its end, or its type, say so.
    is_composite = headers.get("x-amz-checksum-type", "").upper() == "COMPOSITE"
    for name, compute in _CHECKSUMS.items():
        expected = headers.get(name)
        if expected is None or is_composite or "-" in expected:
            continue
        try:
            return compute(response.body) != expected
        except ImportError:
            continue
    return False


def _crc32(body: memoryview) -> str:
    return _base64(zlib.crc32(body), 4)


def _sha256(body: memoryview) -> str:
    return b64encode(sha256(body).digest()).decode()


def _crc32c(body: memoryview) -> str:
    value: int = import_module("fastcrc").crc32.iscsi(body)
    return _base64(value, 4)


def _crc64nvme(body: memoryview) -> str:
    value: int = import_module("awscrt.checksums").crc64nvme(body)
    return _base64(value, 8)


def _crc64ecma(body: memoryview) -> str:
    return str(import_module("fastcrc").crc64.xz(body))


def _base64(value: int, size: int) -> str:
    return b64encode(value.to_bytes(size, "big")).decode()


_CHECKSUMS: Final[dict[str, Callable[[memoryview], str]]] = {
    "x-oss-hash-crc64ecma": _crc64ecma,
    "x-amz-checksum-crc32": _crc32,
    "x-amz-checksum-sha256": _sha256,
    "x-amz-checksum-crc32c": _crc32c,
    "x-amz-checksum-crc64nvme": _crc64nvme,
}
