"""Reads a pack: many small objects as members of a few TAR objects, found by an index (docs/packs.md).

    reader = PackReader(Client(), "bucket", "packed/train/index.fbpack")
    reader.get("train/0001.jpg")                      # one ranged GET of a shard
    for item in reader.get_many(keys): item.content() # neighbours of a shard in one GET of some megabytes

It needs S3 or OSS alone. The index is read whole, once (33 bytes a member), and the tombstones beside it; the shards
by ranges, so that Forebay, if it is the endpoint, keeps them as it keeps all objects, and shows large ones in memory
that both have where they are on one machine. What is read is of the moment at which the index was read: members that
were replaced or deleted since stay readable. An object of the same key is not looked for; with the `packed` rule of a
Forebay, plain `Client.get` does that.

    many members of a shard near each other   a GET of their range, READS_AT_ONCE; its ETag is compared with the index's
    others                                    batches of ranges (Client.get_many)

A digest is computed when a member is first read: what is of the same version has the same bytes. Members of batches,
which tell no version, are compared each time.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain
from typing import Final, NamedTuple

from forebay.core.errors import MalformedPack
from forebay.protocol.packs.index_block import MemberBlock
from forebay.protocol.packs.pack_index import PackIndex, open_index
from forebay.protocol.packs.packed_member import DIGEST_BYTES, PackedMember
from forebay.protocol.packs.tombstones import index_key_of, parse_tombstones, tombstones_prefix
from forebay_client.batch.parallel_gets import parallel_gets
from forebay_client.client import Client
from forebay_client.client_errors import BodyCorrupt, ClientError, ObjectNotFound, RangeNotSatisfiable
from forebay_client.objects import BatchItem, BatchKey, ObjectInfo, checked_keys, end_of, index_of
from forebay_client.transport.body_checks import content_range
from forebay_client.transport.object_request import ObjectRequest

WINDOW_BYTES: Final = 64 << 20
"""Bytes of the members that are ordered by their places in the shards, and held, at a time."""
WINDOW_KEYS: Final = 16_384
LARGE: Final = 256 << 10
"""Bytes of a request of its own."""
READS_AT_ONCE: Final = 4
GAP: Final = 128 << 10
"""Bytes between two members that are read along rather than in a request of their own."""
LONGEST: Final = 8 << 20
"""Bytes of one request, unless a member has more."""
_REMEMBERED: Final = 512
"""Blocks of the index that are kept decoded, of some 30 KB each."""


class _Wanted(NamedTuple):
    shard: int
    offset: int
    position: int
    member: PackedMember


class _Group(NamedTuple):
    shard: int
    start: int
    stop: int
    wanted: list[_Wanted]


class PackReader:
    """Reads members of one pack. Threads may share it; it pickles as its arguments.

    Args:
        client: Of the server that has the pack.
        bucket: Of the pack.
        index_key: Of its index, `*.fbpack`.
        verify: Whether each member that is read whole is compared with its digest, once, for some 20 µs of 20 KB.

    Raises:
        BodyCorrupt: The index is damaged or of another version; the message says what is wrong.
        ObjectNotFound, and the other ClientErrors: The index can't be read.
    """

    def __init__(self, client: Client, bucket: str, index_key: str, *, verify: bool = True) -> None:
        self.client, self.bucket, self.index_key, self.verify = client, bucket, index_key, verify
        self._content = client.get(bucket, index_key)
        try:
            self._index: PackIndex = open_index(self._content)
        except MalformedPack as damage:
            raise BodyCorrupt(str(damage), bucket=bucket, key=index_key) from None
        self._blocks: OrderedDict[int, MemberBlock] = OrderedDict()
        self._deleted = self._read_tombstones()
        self._verified = [bytearray() for _ in self._index.description.shards]
        """A bit for each block of 512 bytes: the digest of the member that begins there has been compared."""

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (self.client, self.bucket, self.index_key, self.verify)

    def __len__(self) -> int:
        return len(self._index) - len(self._deleted)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yields the keys that begin with `prefix`, in order."""
        number = self._index.block_of(prefix) or 0
        while number < self._index.blocks:
            for key in self._block(number).keys:
                if key.startswith(prefix):
                    if key not in self._deleted:
                        yield key
                elif key > prefix:
                    return
            number += 1

    def head(self, key: str) -> ObjectInfo:
        """Size, ETag, type and metadata of a member, from the index. Raises ObjectNotFound."""
        member = self._member(key)
        headers = {name.lower(): value for name, value in member.headers}
        meta = {name[11:]: value for name, value in headers.items() if name.startswith("x-amz-meta-")}
        modified = datetime.fromtimestamp(member.modified, UTC) if member.modified else None
        return ObjectInfo(
            self.bucket, key, member.size, member.etag, modified, headers.get("content-type"), meta, headers=headers
        )

    def get(self, key: str) -> memoryview:
        """Returns a whole member. Raises ObjectNotFound, BodyCorrupt and the other ClientErrors."""
        member = self._member(key)
        if not member.size:
            return memoryview(b"")
        return self._checked(member, self._read_span(member.shard, member.offset, member.offset + member.size))

    def get_range(self, key: str, start: int, end: int | None) -> memoryview:
        """Returns the bytes from `start` up to `end`, exclusive; None: to the end of the member. Raises what
        Client.get_range raises."""
        member = self._member(key)
        start, end = index_of(start), end_of(end)
        stop = member.size if end is None else min(end, member.size)
        if start < 0 or (end is not None and end < start):
            raise ValueError(f"no range: {start}-{end}")
        if start == end:
            return memoryview(b"")
        if start >= stop:
            raise RangeNotSatisfiable("the range begins behind the end of the member", bucket=self.bucket, key=key)
        return self._read_span(member.shard, member.offset + start, member.offset + stop)

    def get_many(self, keys: Iterable[str], *, ordered: bool = True) -> Iterator[BatchItem]:
        """Reads many members in few requests: those that are near each other in a shard in one.

        Args:
            keys: Drawn as the items are consumed, WINDOW_BYTES of members at a time.
            ordered: Whether items come in the order of the keys. Otherwise as they arrive.

        Returns:
            An item a key, whose bytes are a part of what was read with it: who keeps one for long copies it. A key that
            is no member, or can't be read, is an item with an error.
        """
        window, missing, size = list[_Wanted](), list[BatchItem](), 0
        for position, key in enumerate(checked_keys(keys)):
            member = self._find(key)
            if member is None:
                missing.append(BatchItem(position, key, error=self._missing(key)))
            else:
                window.append(_Wanted(member.shard, member.offset, position, member))
                size += member.size
            if size >= WINDOW_BYTES or len(window) + len(missing) >= WINDOW_KEYS:
                yield from self._window(window, missing, ordered=ordered)
                window, missing, size = [], [], 0
        yield from self._window(window, missing, ordered=ordered)

    def _window(self, wanted: list[_Wanted], missing: list[BatchItem], *, ordered: bool) -> Iterator[BatchItem]:
        items = chain(missing, self._read(wanted))
        return iter(sorted(items, key=lambda item: item.index)) if ordered else items

    def _read(self, wanted: list[_Wanted]) -> Iterator[BatchItem]:
        wanted.sort()
        large, small = list[_Group](), list[_Group]()
        for group in _grouped(wanted):
            (large if group.stop - group.start >= LARGE else small).append(group)
        shards = self._index.description.shards
        for is_versioned, groups in ((True, large), (False, small)):
            keys = [BatchKey(shards[group.shard].key, group.start, group.stop) for group in groups]
            read = self._spans(groups, keys) if is_versioned else self.client.get_many(self.bucket, keys, ordered=False)
            for item in read:
                yield from self._members_of(groups[item.index], item, is_versioned=is_versioned)

    def _spans(self, groups: "list[_Group]", keys: list[BatchKey]) -> Iterator[BatchItem]:
        numbers = {(key.key, key.start): group.shard for key, group in zip(keys, groups, strict=True)}

        def read(key: BatchKey) -> memoryview:
            return self._read_span(numbers[key.key, key.start], key.start, key.end or 0)

        if len(keys) == 1:  # no thread is needed
            try:
                return iter((BatchItem(0, keys[0].key, read(keys[0])),))
            except ClientError as error:
                return iter((BatchItem(0, keys[0].key, error=error),))
        return parallel_gets(read, keys, lambda: self.client.executor, READS_AT_ONCE, ordered=False)

    def _read_span(self, shard: int, start: int, stop: int) -> memoryview:
        """Returns bytes of the version of a shard that the index names."""
        described = self._index.description.shards[shard]
        response = self.client.send_request(ObjectRequest("GET", self.bucket, described.key, span=(start, stop)))
        if response.etag.lower() != described.etag.lower():  # OSS writes upper case, which a way through S3 may change
            problem = f"{described.key} is another shard than the index names"
            raise BodyCorrupt(problem, bucket=self.bucket, key=described.key)
        body, found = response.body, content_range(response)
        if response.status != 206:  # the server ignored the range, as HTTP allows: this is the whole shard
            return body[start:stop]
        if found is None or (found.start, len(body)) != (start, stop - start):
            raise BodyCorrupt("the response is of another range", bucket=self.bucket, key=described.key)
        return body

    def _members_of(self, group: "_Group", item: BatchItem, *, is_versioned: bool) -> Iterator[BatchItem]:
        data, first = item.data, group.start
        for _, offset, position, member in group.wanted:
            if data is None:
                yield BatchItem(position, member.key, error=item.error)
                continue
            try:
                content = self._checked(
                    member, data[offset - first : offset - first + member.size], is_versioned=is_versioned
                )
            except ClientError as error:
                yield BatchItem(position, member.key, error=error)
            else:
                yield BatchItem(position, member.key, content)

    def _checked(self, member: PackedMember, content: memoryview, *, is_versioned: bool = True) -> memoryview:
        is_whole = len(content) == member.size
        if is_whole and self.verify:
            verified = self._verified[member.shard]
            if not verified:  # a thread that does this as well costs a digest more, once
                shard_size = self._index.description.shards[member.shard].size
                verified = self._verified[member.shard] = bytearray(shard_size // 4096 + 1)
            at, bit = member.offset >> 12, 1 << (member.offset >> 9 & 7)
            if not (is_versioned and verified[at] & bit):
                is_whole = blake2b(content, digest_size=DIGEST_BYTES).digest() == member.digest
                verified[at] |= bit * is_whole
        if not is_whole:
            shard = self._index.description.shards[member.shard].key
            raise BodyCorrupt(f"its bytes in {shard} are not those of the index", bucket=self.bucket, key=member.key)
        return content

    def _read_tombstones(self) -> frozenset[str]:
        """Returns the keys of members that were deleted."""
        deleted = set[str]()
        for each in self.client.list(self.bucket, tombstones_prefix(self.index_key)):
            if not isinstance(each, ObjectInfo) or index_key_of(each.key) != self.index_key:
                continue
            try:
                tombstones = parse_tombstones(bytes(self.client.get(self.bucket, each.key)))
            except MalformedPack as damage:
                raise BodyCorrupt(str(damage), bucket=self.bucket, key=each.key) from None
            for key, shard, offset in tombstones:
                member = self._look_up(key)
                if member and (self._index.description.shards[member.shard].key, member.offset) == (shard, offset):
                    deleted.add(key)
        return frozenset(deleted)

    def _member(self, key: str) -> PackedMember:
        member = self._find(key)
        if member is None:
            raise self._missing(key)
        return member

    def _missing(self, key: str) -> ObjectNotFound:
        return ObjectNotFound(f"it is no member of {self.index_key}", bucket=self.bucket, key=key)

    def _find(self, key: str) -> PackedMember | None:
        return None if key in self._deleted else self._look_up(key)

    def _look_up(self, key: str) -> PackedMember | None:
        number = self._index.block_of(key)
        return None if number is None else self._block(number).find(key)

    def _block(self, number: int) -> MemberBlock:
        block = self._blocks.get(number)
        if block is None:
            span = self._index.span(number)
            try:
                block = self._index.decode(number, self._content[span.start : span.stop])
            except MalformedPack as damage:
                raise BodyCorrupt(str(damage), bucket=self.bucket, key=self.index_key) from None
            self._blocks[number] = block
            if len(self._blocks) > _REMEMBERED:
                self._blocks.popitem(last=False)
        return block


def _grouped(wanted: list[_Wanted]) -> "Iterator[_Group]":
    """Yields members that are read in one request each, from members in the order of their places."""
    group: list[_Wanted] = []
    first = stop = 0
    for each in wanted:
        shard, offset, _, member = each
        end = offset + member.size
        if not group or shard != group[0].shard or offset > stop + GAP or end - first > LONGEST:
            if group:
                yield _Group(group[0].shard, first, stop, group)
            group, first, stop = [], offset, 0
        group.append(each)
        stop = max(stop, end)
    if group:
        yield _Group(group[0].shard, first, stop, group)


def _reopened(client: Client, bucket: str, index_key: str, verify: bool) -> PackReader:  # of a pickle
    return PackReader(client, bucket, index_key, verify=verify)
