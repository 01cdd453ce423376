"""Requests as bytes on the wire: unsigned for the peers, signed for Forebay.

A target is a path, or a path and a range of it: `/bench/ranges/00000#0-65535`.

Signed requests for the same object are all different: each has a time of its own within the last minute, so that no
server is measured at remembering a signature that it has seen.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from harness.clients import RawClient
from harness.reference_sigv4 import Secret

Form: TypeAlias = Literal["header", "presigned"]
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
    return [_signed(port, targets[n % len(targets)], now - n // len(targets) % _SPREAD, form) for n in range(count)]


def _signed(port: int, target: str, now: float, form: Form) -> bytes:
    client = RawClient(f"http://127.0.0.1:{port}", TRAINER, clock=lambda: now)
    if form == "header":
        path, _, span = target.partition("#")
        return client.sign("GET", path, [("Range", f"bytes={span}")] if span else ()).wire
    return unsigned(port, [client.presign(target=target, method="GET")])[0]
