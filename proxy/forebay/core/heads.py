"""What is known of one version of an object without its bytes."""

from dataclasses import dataclass, field, replace

from forebay.core.names import Generation, Version, generation_of

HeaderPairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What an origin's answer to a plain read says of the object itself."""

    version: Version
    size: int
    """Bytes of the whole object, also when the answer was a range of it."""
    last_modified: str
    """As the origin sent it: an HTTP date. Empty if it sent none."""
    headers: HeaderPairs
    """The object's own headers, to be repeated on every hit: content type, user metadata and so on. Neither the
    transport's (Content-Length, Content-Range, Date, request ids) nor ETag and Last-Modified, which stand above.
    Its checksums (x-amz-checksum-*) are among them; they are given only with the whole object."""
    checksums_known: bool = field(default=False, compare=False)
    """Whether the answer was one that tells checksums, if the origin has any. Not kept on the SSD: then it is asked
    again by whoever wants to know."""


@dataclass(frozen=True, slots=True)
class Head:
    """The facts of an object as cached: which blocks hold its bytes, and when the origin last vouched for it.

    A head without blocks is only a head; blocks that no head names are nothing.
    """

    facts: ObjectFacts
    block_size: int
    generation: Generation
    validated_at: float
    """Seconds since the Unix epoch. Heads outlive the process, so the monotonic clock will not do."""
    by_id: bool = False
    """Of a version that was asked for by its id, current or not: its bytes are asked for by that id as well."""

    @property
    def size(self) -> int:
        return self.facts.size

    @property
    def version(self) -> Version:
        return self.facts.version

    def with_validation(self, now: float) -> "Head":
        """The same head, vouched for again at `now`."""
        return replace(self, validated_at=now)


def head_of(facts: ObjectFacts, block_size: int, now: float) -> Head:
    """The head of a version whose blocks are cut at `block_size`, as seen at `now`."""
    return Head(facts, block_size, generation_of(facts.version, facts.size, block_size), now)
