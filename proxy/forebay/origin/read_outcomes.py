"""What can come of asking the origin for an object: a closed set. What it can't be is an exception (core/errors.py):
OriginUnreachable, OriginBroken, VersionChanged.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.heads import HeaderPairs, ObjectFacts
from forebay.origin.read_body import ReadBody


@dataclass(frozen=True, slots=True)
class ObjectOpened:
    """The object, or the part of it that was asked for, is coming. `body` is the caller's to read to its end or
    close.
    """

    facts: ObjectFacts
    span: Span
    """What is coming, absolute. It is what was asked for, clipped to the object; empty for a HEAD."""
    body: ReadBody
    source: Literal["origin", "flight", "joined", "worker"] = "origin"
    """Who sends it: the origin itself, or the worker that owns the object: out of a flight for this, out of one that
    somebody else had started, or out of what it had."""


@dataclass(frozen=True, slots=True)
class Revalidated:
    """304: the version that the caller has is the current one."""

    etag: str
    last_modified: str


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """The origin's own refusal, to be passed on as it was told: 403, 404, 416, a redirect, a 503 after all
    attempts.
    """

    status: int
    headers: HeaderPairs
    """All of them, the transport's included."""
    body: bytes
    """Empty when it was larger than a refusal is, or broke off."""


@dataclass(frozen=True, slots=True)
class Uncacheable:
    """A success, but nothing that may be cached: the caller passes the request through instead. Nothing is left
    open.
    """

    reason: str


ReadOutcome: TypeAlias = ObjectOpened | Revalidated | ErrorResponse | Uncacheable
