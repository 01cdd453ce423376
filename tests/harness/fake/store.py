"""Buckets as dictionaries. The synchronous methods are the foreign writer: tests change objects behind Forebay's back.

Not here: HTTP, conditions, signatures. Invariants: the versions of a key stand oldest first and never are an empty
list; an object is never changed, only replaced; `clock` is the only source of time.
"""

import hashlib
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.fake.checksums import DEFAULT_CHECKSUM, digest_of
from harness.fake.content import Content, Stored, Synthetic
from harness.fake.errors import Refusal

Pairs = tuple[tuple[str, str], ...]
NULL = "null"  # the version id of an object in a bucket that is not versioned


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One version of an object, or a delete marker."""

    key: str
    content: Content
    etag: str
    """Quoted."""
    modified: float
    headers: Pairs = ()
    """Those that come back on a read: content-*, cache-control, expires, x-amz-meta-*, x-amz-storage-class."""
    version_id: str = NULL
    marker: bool = False
    part_sizes: tuple[int, ...] = ()
    checksums: Pairs = ()
    """(algorithm, base64), which ends in "-N" if it is that of N parts' checksums."""
    part_checksums: tuple[Pairs, ...] = ()
    """Of each part, if each has one."""
    tags: Pairs = ()

    @property
    def size(self) -> int:
        return self.content.size


@dataclass(slots=True)
class Upload:
    """A multipart upload under way."""

    key: str
    headers: Pairs
    tags: Pairs
    started: float
    parts: dict[int, StoredObject] = field(default_factory=dict)
    algorithm: str = ""
    """Of the checksums of its parts, in lower case; empty: none was named."""
    full_object: bool = False
    """Whether its checksum is that of the whole, not of the parts' checksums."""


@dataclass(slots=True)
class Bucket:
    name: str
    created: float
    versioning: str = ""
    """"" (never), "Enabled" or "Suspended"."""
    versions: dict[str, list[StoredObject]] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    tags: Pairs = ()
    encryption: str = ""
    """"" or "aws:kms": no ETag is the MD5 of the content then."""
    cors: bytes = b""
    """The document of PutBucketCors; empty: there is none."""
    ordered: list[str] | None = None
    """The keys in order, or None when they have changed since they were last asked for."""

    def keys_from(self, first: str) -> list[str]:
        """All keys >= first in the order of listings (code points, which is that of UTF-8)."""
        if self.ordered is None:
            self.ordered = sorted(self.versions)
        return self.ordered[bisect_left(self.ordered, first) :]

    def etag_of(self, body: bytes | memoryview) -> str:
        """The ETag of an object or a part that is put at once."""
        return md5_etag(self.encryption.encode() + bytes(body)) if self.encryption else md5_etag(body)

    @property
    def encryption_headers(self) -> Pairs:
        """What the answers to writes say of the encryption."""
        return (("x-amz-server-side-encryption", self.encryption),) if self.encryption else ()


def md5_etag(body: bytes | memoryview) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


class Store:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.buckets: dict[str, Bucket] = {}
        self._uploads = 0

    def next_upload(self) -> int:
        """Numbers uploads, so that their ids are in the order of their creation."""
        self._uploads += 1
        return self._uploads

    def bucket(self, name: str) -> Bucket:
        try:
            return self.buckets[name]
        except KeyError:
            raise Refusal("NoSuchBucket", "The specified bucket does not exist", BucketName=name) from None

    def create_bucket(self, name: str) -> Bucket:
        """The bucket of that name, made if there is none."""
        return self.buckets.setdefault(name, Bucket(name, self.clock()))

    def put(self, bucket: str, key: str, body: bytes, etag: str | None = None, **headers: str) -> StoredObject:
        """Replaces an object, making its bucket if needed.

        Header names in lower case with underscores for dashes: `content_type=...`, `x_amz_meta_colour=...`. `etag`
        (quoted) is given only to lie.
        """
        content = Stored(body)
        pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        checksums = ((DEFAULT_CHECKSUM, digest_of(DEFAULT_CHECKSUM, body)),)
        return self.add(
            self.create_bucket(bucket),
            StoredObject(key, content, etag or md5_etag(body), self.clock(), pairs, checksums=checksums),
        )

    def put_synthetic(self, bucket: str, key: str, size: int, seed: int = 0, **headers: str) -> Synthetic:
        """An object of any size that takes no room. Compare what was read with the result's `expected(span)`."""
        content = Synthetic(size, seed)
        pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        self.add(self.create_bucket(bucket), StoredObject(key, content, content.etag, self.clock(), pairs))
        return content

    def add(self, bucket: Bucket, version: StoredObject) -> StoredObject:
        """Makes `version` the current one, under the version id that the bucket's state asks for."""
        version_id = uuid.uuid4().hex if bucket.versioning == "Enabled" else NULL
        version = StoredObject(
            version.key,
            version.content,
            version.etag,
            version.modified,
            version.headers,
            version_id,
            version.marker,
            version.part_sizes,
            version.checksums,
            version.part_checksums,
            version.tags,
        )
        if version.key not in bucket.versions:
            bucket.ordered = None
        older = [each for each in bucket.versions.get(version.key, ()) if each.version_id != version_id]
        bucket.versions[version.key] = [*older, version]
        return version

    def swap(self, bucket: Bucket, old: StoredObject, new: StoredObject) -> None:
        """Puts `new` in the place of `old`: for tags, which do not make a version."""
        versions = bucket.versions[old.key]
        versions[versions.index(old)] = new

    def current(self, bucket: str, key: str) -> StoredObject | None:
        """The current version, None when there is none or it is a delete marker."""
        versions = self.bucket(bucket).versions.get(key)
        return versions[-1] if versions and not versions[-1].marker else None

    def get(self, bucket: str, key: str, version_id: str | None = None) -> StoredObject:
        """The version asked for. Refusal: NoSuchBucket, NoSuchKey, NoSuchVersion, MethodNotAllowed (a marker)."""
        versions = self.bucket(bucket).versions.get(key, [])
        if version_id is not None:
            for each in versions:
                if each.version_id == version_id:
                    if each.marker:
                        raise Refusal("MethodNotAllowed", headers=(("x-amz-delete-marker", "true"),))
                    return each
            raise Refusal("NoSuchVersion", "The specified version does not exist.", Key=key, VersionId=version_id)
        if not versions:
            raise Refusal("NoSuchKey", "The specified key does not exist.", Key=key)
        if versions[-1].marker:
            told = (("x-amz-delete-marker", "true"), ("x-amz-version-id", versions[-1].version_id))
            raise Refusal("NoSuchKey", "The specified key does not exist.", told, Key=key)
        return versions[-1]

    def delete(self, bucket: str, key: str, version_id: str | None = None) -> StoredObject | None:
        """Removes an object, or one version, or adds a delete marker. Returns the marker that was made or removed."""
        home = self.bucket(bucket)
        if version_id is None and home.versioning:
            return self.add(home, StoredObject(key, Stored(), '""', self.clock(), marker=True))
        versions = home.versions.get(key, [])
        gone = [each for each in versions if version_id is None or each.version_id == version_id]
        left = [each for each in versions if each not in gone]
        if left:
            home.versions[key] = left
        elif versions:
            del home.versions[key]
            home.ordered = None
        return next((each for each in gone if each.marker), None)
