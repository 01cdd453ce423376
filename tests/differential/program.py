"""A program: requests in a row, as data. What an earlier answer has named stands in them as a placeholder.

    {etag:bucket/key}      the ETag that was last seen of an object, without quotes
    {modified:bucket/key}  its Last-Modified
    {upload:3}  {version:3}  {token:3}  {part:3}  {key-marker:3}  {id-marker:3}
                           upload id, version id, continuation token, ETag, next markers of the answer to call 3

The names of uploads, versions and pages are each side's own; ETags and times must be the same on both.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, TypeAlias

Pairs: TypeAlias = tuple[tuple[str, str], ...]
FRAMED: Final = ("signed-chunks", "signed-chunks-trailer", "unsigned-chunks-trailer")
VERSIONING: Final = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
FORMS: Final = ("plain", "unsigned", "presigned", *FRAMED)
"""How a request is signed, and how its body is framed. Beside them a form that is posted ("posted"), and the signatures
that only Forebay is sent, and the origin is not: S3's ("v2", "v2-query"), OSS's ("v1", "v1-query", "v2" ...)."""


@dataclass(frozen=True, slots=True)
class Content:
    """Random bytes, short to print."""

    seed: int
    size: int

    def bytes(self) -> bytes:
        return Random(self.seed).randbytes(self.size)


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `bucket` is the kind of a bucket: each program has one of each kind."""

    number: int
    method: str
    bucket: str
    key: str | None = None
    query: Pairs = ()
    headers: Pairs = ()
    body: Content | str = ""
    form: str = "plain"
    twice: bool = False
    """Sent a second time, which may be answered from the cache."""
    digest: str = ""
    """Content-MD5: "right", "wrong", or none."""
    trailer: str = "crc32"
    """The algorithm of a trailer, where the form has one; "wrong" for a checksum of other bytes."""
    is_virtual: bool = False
    """Whether the bucket stands in the host name."""

    def name(self) -> str:
        """What placeholders call the object."""
        return f"{self.bucket}/{self.key}"


@dataclass(frozen=True, slots=True)
class Pause:
    """The clocks of all sides move on."""

    number: int
    seconds: int


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """A read of a batch: from `start` up to `stop`, None for the end."""

    key: str
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Reads in one request through Forebay, and one by one straight from the origin."""

    number: int
    bucket: str
    entries: tuple[BatchEntry, ...]
    by_arrival: bool = False


Step: TypeAlias = Call | Batch | Pause
Program: TypeAlias = Sequence[Step]


def without_times(program: Program) -> Iterator[Step]:
    """The steps whose answers depend on no clock."""
    for step in program:
        if isinstance(step, Batch):
            yield step
        elif isinstance(step, Call):
            kept = (each for each in step.headers if not each[0].lower().endswith("-since") and each[0] != "If-Range")
            yield replace(step, headers=tuple(kept))


def md5_of(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
