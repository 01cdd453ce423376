"""The tally of a body: its size and CRC64, counted as it passes on its way up.

What was counted over a whole body that the origin has confirmed is a fact about the version it became, and is told to
who asks in OSS's terms. Of a multipart upload the tallies of its parts make that of the object.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from cachetools import FIFOCache

from forebay.core.cooperative import Stretches, at_once
from forebay.core.heads import HeaderPairs, ObjectFacts
from forebay.core.names import ObjectName
from forebay.protocol.body.checksums import Piece
from forebay.protocol.body.crc64 import combine, crc64
from forebay.protocol.etags import folded
from forebay.protocol.oss.oss_vocabulary import CRC64

CAPACITY: Final = 100_000
"""Versions whose CRC64 is remembered until their head is learnt. The head keeps it from then on."""

_AT_ONCE: Final = 16


@dataclass(slots=True)
class BodyDigest:
    """A body that is passing."""

    crc: int = 0
    size: int = 0

    def update(self, piece: Piece) -> None:
        self.crc = crc64(piece, self.crc)
        self.size += len(piece)


def combining_digests(tallies: Iterable[BodyDigest]) -> Stretches[BodyDigest]:
    """The tally of bodies one after the other. In stretches: bodies of many lengths take 70 microseconds each."""
    whole = BodyDigest()
    for number, tally in enumerate(tallies, 1):
        whole = BodyDigest(combine(whole.crc, tally.crc, tally.size), whole.size + tally.size)
        if number % _AT_ONCE == 0:
            yield
    return whole


def combine_digests(tallies: Iterable[BodyDigest]) -> BodyDigest:
    """`joining`, at once."""
    return at_once(combining_digests(tallies))


def crc_header(tally: BodyDigest | None) -> HeaderPairs:
    """How an answer tells it."""
    return ((CRC64, str(tally.crc)),) if tally is not None else ()


class WrittenDigests:
    """Of versions that were written here and whose heads have not been learnt yet. The oldest are forgotten."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._known: FIFOCache[ObjectName, tuple[str, BodyDigest]] = FIFOCache(capacity)

    def __len__(self) -> int:
        return len(self._known)

    def record(self, name: ObjectName, etag: str, tally: BodyDigest) -> None:
        """The origin has confirmed this body as the version with this ETag."""
        if not etag:
            return
        self._known[name] = (folded(etag), tally)

    def add_crc(self, name: ObjectName, facts: ObjectFacts) -> ObjectFacts:
        """The facts, and the CRC64 that is known of exactly this version. What the origin itself tells is left."""
        known = self._known.get(name)
        if known is None or known[0] != folded(facts.version.etag) or known[1].size != facts.size:
            return facts
        if any(header.lower() == CRC64 for header, _ in facts.headers):
            return facts
        return replace(facts, headers=(*facts.headers, *crc_header(known[1])))
