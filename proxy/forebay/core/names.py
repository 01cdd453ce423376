"""Names of objects, versions and blocks.

A raw string becomes one of these once, at the edge (forebay.protocol.target), and is never decoded again:
authorisation, policy, cache and origin all use the same value.

    ObjectName   a bucket and a key
    Version      one content of an object: its ETag, and its version id where the bucket is versioned
    Generation   eight bytes that name one version cut into blocks of one size
    BlockId      an object, a generation, and the position of a block in it
"""

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, NewType

MAX_KEY_BYTES = 1024  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html

MAX_BUCKET_BYTES: Final = 255  # Amazon allows 63 today and allowed 255 once; Swift and Ceph still do.

RESERVED_PREFIX: Final = ".forebay/"
"""Keys below it are Forebay's own resources in every bucket: plans, recordings, statistics. They are answered by
forebay.request.resource_router, cached never, and no request about them reaches the origin."""

BATCH_KEY: Final = f"{RESERVED_PREFIX}batch"
"""The key to which batches of reads are sent by POST (forebay.request.batch)."""

# No delimiter of a URL: where an origin is addressed as `bucket.host`, it would move the host.
_BUCKET: Final = re.compile(r"[^\x00-\x20\x7f-\xa0/\\?#@%\[\]]+")

Generation = NewType("Generation", bytes)


class ObjectName(NamedTuple):
    """A bucket and a key, both decoded. Equality is byte equality: S3 never normalises a key."""

    bucket: str
    key: str

    @property
    def path(self) -> str:
        """`bucket/key`, the form that rules and grants are written against."""
        return f"{self.bucket}/{self.key}"


class UploadKey(NamedTuple):
    """The identity of a multipart upload."""

    name: ObjectName
    upload_id: str

    @property
    def staging_name(self) -> ObjectName:
        """The object name under which the upload's parts are staged. No object can have it, as keys hold no NUL: a
        write to the object itself, its completion included, leaves the staged parts alone."""
        return ObjectName(self.name.bucket, f"{self.name.key}\0{self.upload_id}")


class Version(NamedTuple):
    """One content of an object."""

    etag: str
    """The ETag that the origin sent, quotes included. Never weak: a weak ETag does not name bytes."""
    version_id: str | None = None


class BlockId(NamedTuple):
    """A fixed, aligned slice of a version. Two equal BlockIds name the same bytes."""

    object: ObjectName
    generation: Generation
    number: int
    """Position in the version: the block begins at byte `number * block_size`."""


def is_reserved(key: str) -> bool:
    """Whether a key, or the prefix of a listing, is below RESERVED_PREFIX."""
    return key.startswith(RESERVED_PREFIX)


@lru_cache(maxsize=256)  # requests repeat few buckets
def is_bucket_name(text: str) -> bool:
    """Whether `text` can name a bucket.

    The check is one of safety, as origins differ in their rules: it refuses names that could be mistaken for another
    part of a URL.
    """
    fits = _BUCKET.fullmatch(text) is not None and text not in {".", ".."}
    return fits and len(text.encode()) <= MAX_BUCKET_BYTES


def generation_of(version: Version, size: int, block_size: int) -> Generation:
    """The generation of a version of `size` bytes cut into blocks of `block_size` bytes.

    Bytes staged before their version is known (an upload under way) live under a random generation instead; only a
    Head that names it makes them reachable.
    """
    identity = f"{version.etag}\n{version.version_id or ''}\n{size}\n{block_size}"
    return Generation(blake2b(identity.encode(), digest_size=8).digest())
