"""Heads: the facts of one version of an object, without its bytes."""

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from forebay.core.names import Generation, ObjectName, Version, generation_of

HeaderPairs = tuple[tuple[str, str], ...]

NEVER_VALIDATED: Final = -1.0
"""The validation time of a head without a trusted validation: before every time from which heads are trusted."""

DURABLE: Final = "x-forebay-durable"
"""The response header that says where the write, or the bytes that are read, are durable."""
DURABLE_LOCAL: Final = (DURABLE, "local")
DURABLE_ORIGIN: Final = (DURABLE, "origin")
DURABILITY: Final = "x-forebay-durability"
"""The request header that says where the write has to be durable when it is acknowledged."""

_EMPTY_ETAG: Final = '"d41d8cd98f00b204e9800998ecf8427e"'
"""The MD5 of nothing."""


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """The facts of an object in the origin's response to a plain read."""

    version: Version
    size: int
    """Bytes of the whole object, also if the response was a range."""
    last_modified: str
    """The HTTP date that the origin sent. Empty if it sent none."""
    headers: HeaderPairs
    """The object's own headers, sent with every hit: content type, user metadata and so on. Without those of the
    transport (Content-Length, Content-Range, Date, request ids), ETag and Last-Modified. Its checksums
    (x-amz-checksum-*) are included; they are sent only with the whole object."""
    checksums_known: bool = field(default=False, compare=False)
    """Whether the origin was requested for checksums. If so, `headers` has all that it stores of this version."""

    @property
    def is_doubtfully_empty(self) -> bool:
        """Whether the response says that the object has no bytes, and its ETag does not prove it: a response that has
        lost its body and its length looks the same."""
        return self.size == 0 and self.version.etag.lower() != _EMPTY_ETAG


@dataclass(frozen=True, slots=True)
class Head:
    """A cached version: its facts, the generation of its blocks, and the time of its last validation.

    A head may have no cached blocks. Blocks that no head names are unreachable.
    """

    facts: ObjectFacts
    block_size: int
    generation: Generation
    validated_at: float
    """Seconds since the Unix epoch. Heads outlive the process, so the monotonic clock will not do."""
    by_id: bool = False
    """Whether the version was requested by its id, current or not; its blocks are fetched by that id too."""

    @property
    def size(self) -> int:
        """Bytes of the object."""
        return self.facts.size

    @property
    def version(self) -> Version:
        """The version that the head describes."""
        return self.facts.version

    def with_validation(self, now: float) -> "Head":
        """Returns this head, validated at `now`."""
        return replace(self, validated_at=now)


def head_of(facts: ObjectFacts, block_size: int, now: float) -> Head:
    """The head of a version with blocks of `block_size` bytes, validated at `now`."""
    return Head(facts, block_size, generation_of(facts.version, facts.size, block_size), now)


class NamedHead(NamedTuple):
    """A head and the object that it describes."""

    name: ObjectName
    head: Head
