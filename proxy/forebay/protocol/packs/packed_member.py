"""A packed member: an object whose bytes are a span of a shard, and the facts in responses to reads of its key."""

import re
from email.utils import formatdate
from typing import Final, NamedTuple

from forebay.core.heads import HeaderPairs, ObjectFacts
from forebay.core.names import Version
from forebay.protocol.dates import parse_http_date

DIGEST_BYTES: Final = 8
"""Bytes of the digest of a member, by BLAKE2b."""
_KEPT: Final = re.compile(
    r"content-(type|encoding|language|disposition)|cache-control|expires|accept-ranges|x-amz-website-redirect-location"
    r"|x-amz-meta-.*|x-amz-checksum-.*|x-(oss|amz-meta-oss)-.*crc64.*",
    re.IGNORECASE,
)
"""Headers that belong to the bytes and their writer. Storage class, version id, encryption and the like are of the
object that was read, not of its copy."""


class PackedMember(NamedTuple):
    """One member of a pack."""

    key: str
    shard: int
    """Position of its shard in the index's list of shards."""
    offset: int
    """The offset of its bytes in the shard; a multiple of 512."""
    size: int
    etag: str
    """The ETag of the object that was packed, as the origin sent it, quotes included."""
    modified: int
    """Seconds since the epoch; 0: not known."""
    headers: HeaderPairs
    digest: bytes
    """DIGEST_BYTES of BLAKE2b over its bytes."""

    @property
    def stop(self) -> int:
        """Returns the position behind its last byte in the shard."""
        return self.offset + self.size

    def facts(self) -> ObjectFacts:
        """Returns the facts of the object, for responses to reads of its key."""
        date = formatdate(self.modified, usegmt=True) if self.modified else ""
        return ObjectFacts(Version(self.etag), self.size, date, self.headers, checksums_known=True)


class PackShard(NamedTuple):
    """A TAR object with members. No shard is written twice: its name is new with each job."""

    key: str
    size: int
    etag: str
    """The ETag that reads demand; another version under the same key is refused."""


def member_of(key: str, facts: ObjectFacts, shard: int, offset: int, digest: bytes) -> PackedMember:
    """Returns the member that stands for an object with these facts."""
    headers = tuple(pair for pair in facts.headers if _KEPT.fullmatch(pair[0]))
    modified = parse_http_date(facts.last_modified) or 0
    return PackedMember(key, shard, offset, facts.size, facts.version.etag, modified, headers, digest)
