"""Tombstones as they are read from the origin: all of one index, none twice, none too large. How they are written and
merged: scenarios/test_packed_deletions.py."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, PackUnavailable
from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.namespace.packs.tombstone_store import LISTED_AGAIN, TombstonesReplaced, TombstoneStore
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened, Uncacheable
from forebay.protocol.packs.tombstones import MAX_TOMBSTONES_BYTES, Tombstone, encode_tombstones, tombstones_key

INDEX = "packed/a.fbpack"


class BodyDouble:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.is_closed = False

    async def read_all(self) -> bytes:
        return self._content

    def close(self) -> None:
        self.is_closed = True


class OriginsDouble:
    """Objects of one bucket. `replaced`: so many listings show an object that is gone when it is read."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.sizes: dict[str, int] = {}
        self.reads: list[str] = []
        self.replaced = 0
        self.listings = 0
        self.refused: Any = None
        self.bodies: list[BodyDouble] = []

    async def list_objects(self, _bucket: str, prefix: str) -> AsyncIterator[Any]:
        self.listings += 1
        keys = [key for key in sorted(self.objects) if key.startswith(prefix)]
        if self.listings <= self.replaced:
            keys.append(key_of(999))
        for key in keys:
            yield SimpleNamespace(key=key)

    async def open_read(self, name: ObjectName, _: OriginRead) -> Any:
        self.reads.append(name.key)
        if self.refused is not None:
            return self.refused
        content = self.objects.get(name.key)
        if content is None:
            return ErrorResponse(404, (), b"")
        facts = ObjectFacts(Version('"1"'), self.sizes.get(name.key, len(content)), "", (), checksums_known=True)
        self.bodies.append(BodyDouble(content))
        body: Any = self.bodies[-1]
        return ObjectOpened(facts, Span(0, facts.size), body)


def key_of(number: int) -> str:
    return tombstones_key(INDEX, float(number), bytes(4))


def tombstones(*numbers: int) -> list[Tombstone]:
    return [Tombstone(f"{number:03}", "packed/a.tar", 512) for number in numbers]


def store_of(origins: OriginsDouble) -> TombstoneStore:
    double: Any = origins
    return TombstoneStore(double, lambda: 0.0)


async def test_each_object_is_read_once() -> None:
    origins, numbers = OriginsDouble(), range(40)
    for number in numbers:
        origins.objects[key_of(number)] = encode_tombstones(tombstones(number))
    keys = [key_of(number) for number in numbers]
    assert await store_of(origins).read("bucket", keys) == tombstones(*numbers)
    assert sorted(origins.reads) == keys


async def test_the_known_ones_are_listed_and_not_read() -> None:
    origins = OriginsDouble()
    for number in (1, 2, 3):
        origins.objects[key_of(number)] = encode_tombstones(tombstones(number))
    origins.objects["packed/a.deleted/other"] = origins.objects["packed/a.deleted/b/c.json"] = b"no tombstones"
    keys, found = await store_of(origins).find("bucket", INDEX, {key_of(2)})
    assert keys == [key_of(1), key_of(2), key_of(3)]
    assert found == tombstones(1, 3)


async def test_replaced_tombstones_are_listed_a_few_times() -> None:
    origins = OriginsDouble()
    origins.objects[key_of(1)] = encode_tombstones(tombstones(1))
    origins.replaced = LISTED_AGAIN
    assert await store_of(origins).find("bucket", INDEX, ()) == ([key_of(1)], tombstones(1))
    assert origins.listings == LISTED_AGAIN + 1
    origins.listings, origins.replaced = 0, 100
    with pytest.raises(TombstonesReplaced):
        await store_of(origins).find("bucket", INDEX, ())
    assert origins.listings == LISTED_AGAIN + 1


@pytest.mark.parametrize("refused", [ErrorResponse(403, (), b""), Uncacheable("encoded")])
async def test_what_can_not_be_read_is_not_listed_again(refused: object) -> None:
    origins = OriginsDouble()
    origins.objects[key_of(1)] = b""
    origins.refused = refused
    with pytest.raises(OriginBroken, match="can't be read"):
        await store_of(origins).find("bucket", INDEX, ())
    assert origins.listings == 1


async def test_too_many_tombstones_are_not_read() -> None:
    origins = OriginsDouble()
    origins.objects[key_of(1)] = encode_tombstones(tombstones(1))
    origins.sizes[key_of(1)] = MAX_TOMBSTONES_BYTES
    assert await store_of(origins).read("bucket", [key_of(1)]) == tombstones(1)
    origins.sizes[key_of(1)] += 1
    with pytest.raises(PackUnavailable, match="268435457 bytes"):
        await store_of(origins).read("bucket", [key_of(1)])
    assert [body.is_closed for body in origins.bodies] == [False, True]
