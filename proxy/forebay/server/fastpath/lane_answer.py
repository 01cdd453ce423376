"""Lane answers: the fast lane's results for requests that are not left to aiohttp. A hit, or a read for the gateway."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from forebay.core.buffers import Buffer
from forebay.protocol.exchange import OpenFile
from forebay.protocol.header_map import Headers
from forebay.request.admission import Admission
from forebay.storage.ssd.segments.verified_extents import VerifiedExtent

FileExtent: TypeAlias = tuple[OpenFile, int, int, VerifiedExtent | None]
"""Bytes of a file that are sent unchanged: file, start, stop, and their verification; None for bytes that are certain
to be in memory. A plain tuple, as an instance of a class takes ten times as long to make."""
HitResponse: TypeAlias = tuple[bytes, Sequence[Buffer], Sequence[FileExtent], int]
"""The bytes to write: the head; the body as buffers or as file extents; the size of the body. A small body is joined to
its head: then there are neither, and the size is 0. A plain tuple, as an instance of a class takes ten times as long to
make."""


class AdmittedRead(NamedTuple):
    """A plain read that was admitted and is no hit: its head as parsed, for the gateway."""

    method: str
    raw_target: str
    headers: Headers
    started: float
    """Seconds on the monotonic clock."""
    received_at: float
    """Seconds since the epoch."""
    admission: Admission
    is_unknown: bool
    """Whether no tier has a head of the object."""
