"""Requests as bytes on the wire: unsigned for the peers, signed for Forebay.

A target is a path, or a path and a range of it: `/bench/ranges/00000#0-65535`.

Signed requests for the same object are all different: each has a time of its own within the last minute, so that no
server is measured at remembering a signature that it has seen.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from benchmarks.load.http_client import KeepAliveConnection
from harness.clients import RawClient
from harness.reference_sigv4 import Secret
from security.oss_signers import OSS_SIGNERS

Form: TypeAlias = Literal["header", "if-match", "presigned", "oss-v4", "oss-v1", "oss-url"]
"""How they are signed: by S3's version 4, in the header, the same with the object's ETag in If-Match, in a URL; by
OSS's versions 4 and 1 in the header, as oss2 does, and by its version 4 in a URL."""
_OSS: Final = {
    "oss-v4": ("SignedOssV4", "header"),
    "oss-v1": ("SignedOssV1", "header"),
    "oss-url": ("SignedOssV4", "query"),
}
TRAINER: Final = Secret("trainer", "trainer-secret")
DISTINCT: Final = 1024
"""Requests in a set: so many signatures are told apart."""
_SPREAD: Final = 60
"""Seconds over which the times of signatures are spread; S3 allows 900."""


def unsigned(port: int, targets: Sequence[str]) -> list[bytes]:
    """One request for each target."""
    wires = []
    for target in targets:
        path, _, span = target.partition("#")
        ranged = f"Range: bytes={span}\r\n" if span else ""
        wires.append(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{ranged}\r\n".encode())
    return wires


def signed(port: int, targets: Sequence[str], now: float, form: Form = "header", count: int = DISTINCT) -> list[bytes]:
    """`count` requests (at least one for each target), good for some minutes from `now`, seconds since the epoch."""
    etags = {target: _etag(port, target, now) for target in targets} if form == "if-match" else {}
    return [
        _signed(port, target, now - n // len(targets) % _SPREAD, form, etags.get(target, ""))
        for n in range(max(count, len(targets)))
        for target in [targets[n % len(targets)]]
    ]


def _etag(port: int, target: str, now: float) -> str:
    """The ETag of the object, as whoever listens at the port tells it."""
    with KeepAliveConnection(port) as connection:
        return connection.get(_signed(port, target, now, "header", "")).headers["etag"]


def _signed(port: int, target: str, now: float, form: Form, etag: str) -> bytes:
    client = RawClient(f"http://127.0.0.1:{port}", TRAINER, clock=lambda: now)
    path, _, span = target.partition("#")
    pairs = [("Range", f"bytes={span}")] if span else []
    pairs += [("If-Match", etag)] if form == "if-match" else []
    if form in _OSS:
        return OSS_SIGNERS[_OSS[form]](TRAINER, "GET", path, pairs, b"", now, None).wire
    if form == "presigned":
        return unsigned(port, [client.presign(target=target, method="GET")])[0]
    return client.sign("GET", path, pairs).wire
