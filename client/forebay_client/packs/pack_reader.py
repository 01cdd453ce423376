"""Reads a pack: many small objects as members of a few TAR objects, found by an index (docs/packs.md).

    reader = PackReader(Client(), "bucket", "packed/train/index.fbpack")
    reader.get("train/0001.jpg")                      # one ranged GET of a shard
    for item in reader.get_many(keys): item.content() # neighbours of a shard in one GET of some megabytes

It needs S3 or OSS alone. The index is read whole, once (33 bytes a member), the shards by ranges, so that Forebay, if
it is the endpoint, keeps them as it keeps all objects. What is read is of the moment at which the index was read:
members that were replaced or taken out since stay readable. An object of the same key is not looked for; with the
`packed` rule of a Forebay, plain `Client.get` does that.
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
from forebay_client.client import Client
from forebay_client.client_errors import BodyCorrupt, ClientError, ObjectNotFound
from forebay_client.objects import BatchItem, BatchKey, ObjectInfo

WINDOW_BYTES: Final = 64 << 20
"""Bytes of the members that are ordered by their places in the shards, and held, at a time."""
WINDOW_KEYS: Final = 16_384
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


class PackReader:
    """Reads members of one pack. Threads may share it; it pickles as its arguments.

    Args:
        client: Of the server that has the pack.
        bucket: Of the pack.
        index_key: Of its index, `*.fbpack`.
        verify: Whether each member that is read whole is compared with its digest, for some 20 µs of 20 KB.

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

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (self.client, self.bucket, self.index_key, self.verify)

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def keys(self, prefix: str = "") -> Iterator[str]:
        """The keys that begin with `prefix`, in order."""
        number = self._index.block_of(prefix) or 0
        while number < self._index.blocks:
            for key in self._block(number).keys:
                if key.startswith(prefix):
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
        """A whole member. Raises ObjectNotFound, BodyCorrupt and the other ClientErrors."""
        member = self._member(key)
        return self._checked(member, self.get_range(key, 0, None))

    def get_range(self, key: str, start: int, end: int | None) -> memoryview:
        """The bytes from `start` up to `end`, exclusive; None: to the end of the member. Raises what `get` raises."""
        member = self._member(key)
        stop = member.size if end is None else min(end, member.size)
        if start < 0 or (end is not None and end < start):
            raise ValueError(f"no range: {start}-{end}")
        if start >= stop:
            return memoryview(b"")
        shard = self._index.description.shards[member.shard].key
        return self.client.get_range(self.bucket, shard, member.offset + start, member.offset + stop)

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
        for position, key in enumerate(keys):
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
        groups = list(_grouped(wanted))
        shards = self._index.description.shards
        spans = [
            BatchKey(shards[group[0].shard].key, group[0].offset, max(each.member.stop for each in group))
            for group in groups
        ]
        for item in self.client.get_many(self.bucket, spans, ordered=False):
            for each in groups[item.index]:
                member = each.member
                if item.data is None:
                    yield BatchItem(each.position, member.key, error=item.error)
                    continue
                start = member.offset - spans[item.index].start
                try:
                    content = self._checked(member, item.data[start : start + member.size])
                    yield BatchItem(each.position, member.key, content)
                except ClientError as error:
                    yield BatchItem(each.position, member.key, error=error)

    def _checked(self, member: PackedMember, content: memoryview) -> memoryview:
        if len(content) != member.size or (
            self.verify and blake2b(content, digest_size=DIGEST_BYTES).digest() != member.digest
        ):
            shard = self._index.description.shards[member.shard].key
            raise BodyCorrupt(f"its bytes in {shard} are not those of the index", bucket=self.bucket, key=member.key)
        return content

    def _member(self, key: str) -> PackedMember:
        member = self._find(key)
        if member is None:
            raise self._missing(key)
        return member

    def _missing(self, key: str) -> ObjectNotFound:
        return ObjectNotFound(f"it is no member of {self.index_key}", bucket=self.bucket, key=key)

    def _find(self, key: str) -> PackedMember | None:
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


def _grouped(wanted: list[_Wanted]) -> Iterator[list[_Wanted]]:
    """Members that are read in one request each, from members in the order of their places."""
    group: list[_Wanted] = []
    stop = 0
    for each in wanted:
        is_near = group and each.shard == group[0].shard and each.offset <= stop + GAP
        if not is_near or each.member.stop - group[0].offset > LONGEST:
            if group:
                yield group
            group, stop = [], 0
        group.append(each)
        stop = max(stop, each.member.stop)
    if group:
        yield group


def _reopened(client: Client, bucket: str, index_key: str, verify: bool) -> PackReader:  # of a pickle
    return PackReader(client, bucket, index_key, verify=verify)
