"""Body digests: size and CRC64 of a body, computed as it passes on its way to the origin.

The digest of a body that the origin has confirmed is a fact about the version that the body became. OSS clients are
sent it as `x-oss-hash-crc64ecma`. The digests of an upload's parts combine to that of the object. A write whose outcome
is unknown leaves no digest: a CRC64 is never guessed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from cachetools import FIFOCache

from forebay.core.buffers import Piece
from forebay.core.cooperative import CooperativeWork, run_to_completion
from forebay.core.heads import HeaderPairs, ObjectFacts
from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_name, encode_name
from forebay.protocol.body.crc64 import crc64
from forebay.protocol.body.crc_combination import combine_crc64
from forebay.protocol.conditions import folded_etag
from forebay.protocol.oss.oss_headers import CRC64

CAPACITY: Final = 100_000
"""Versions whose digest is kept until their head is learnt. The head keeps the CRC64 from then on."""

_BATCH: Final = 16


@dataclass(slots=True)
class BodyDigest:
    """The digest of a body so far."""

    crc: int = 0
    """CRC-64/XZ, as OSS computes it."""
    size: int = 0
    """Bytes."""

    def update(self, piece: Piece) -> None:
        """Adds the next bytes."""
        self.crc = crc64(piece, self.crc)
        self.size += len(piece)


def combining_digests(digests: Iterable[BodyDigest]) -> CooperativeWork[BodyDigest]:
    """Combines the digests of consecutive bodies, cooperatively: bodies of many lengths take 70 microseconds each."""
    whole = BodyDigest()
    for number, digest in enumerate(digests, 1):
        whole = BodyDigest(combine_crc64(whole.crc, digest.crc, digest.size), whole.size + digest.size)
        if number % _BATCH == 0:
            yield
    return whole


def combine_digests(digests: Iterable[BodyDigest]) -> BodyDigest:
    """Combines the digests of consecutive bodies."""
    return run_to_completion(combining_digests(digests))


def encode_digest(digest: BodyDigest) -> Document:
    """Returns the fields of a message about a body with this digest."""
    return {"crc": f"{digest.crc:x}", "size": digest.size}


def decode_digest(document: Document) -> BodyDigest:
    """Returns the digest in a message. Raises the errors of peers.peer_codec.decode."""
    return BodyDigest(int(document["crc"], 16), int(document["size"]))


def crc_header(digest: BodyDigest | None) -> HeaderPairs:
    """Returns the response header that carries the CRC64; none for an unknown digest."""
    return ((CRC64, str(digest.crc)),) if digest is not None else ()


def crc_in(headers: HeaderPairs) -> HeaderPairs:
    """Returns the header that carries the CRC64, as far as it is among these."""
    return tuple(pair for pair in headers if pair[0].lower() == CRC64)


class WrittenDigests:
    """The digests of versions that were written through this node and whose heads are not learnt yet. The oldest are
    forgotten. Every worker has all of them, as any may learn the head."""

    def __init__(self, peers: Peers, capacity: int = CAPACITY) -> None:
        self._peers = peers
        self._digests: FIFOCache[ObjectName, tuple[str, BodyDigest]] = FIFOCache(capacity)

    def __len__(self) -> int:
        return len(self._digests)

    async def record(self, name: ObjectName, etag: str, digest: BodyDigest) -> None:
        """Records the digest of the version with this ETag, in all workers."""
        self._record(name, etag, digest)
        version = {"kind": "wrote", "name": encode_name(name), "etag": etag}
        await self._peers.update_all(version | encode_digest(digest))

    def receive(self, document: Document) -> None:
        """Applies another worker's record. Raises PeerUnavailable for a malformed one."""
        name, etag = decode(lambda: (decode_name(document["name"]), str(document["etag"])))
        self._record(name, etag, decode(lambda: decode_digest(document)))

    def _record(self, name: ObjectName, etag: str, digest: BodyDigest) -> None:
        if etag:
            self._digests[name] = (folded_etag(etag), digest)

    def add_crc(self, name: ObjectName, facts: ObjectFacts) -> ObjectFacts:
        """Returns the facts with the CRC64 of exactly this version, if it is known. One from the origin stays."""
        known = self._digests.get(name) if self._digests else None
        if known is None or known[0] != folded_etag(facts.version.etag) or known[1].size != facts.size:
            return facts
        if crc_in(facts.headers):
            return facts
        return replace(facts, headers=(*facts.headers, *crc_header(known[1])))
