"""A view of several packs: which of them answers for a key, and which keys may be objects."""

import pytest

from forebay.core.errors import PackUnavailable
from forebay.core.fences import Fences
from forebay.core.names import ObjectName
from forebay.namespace.packs.pack_view import PackView
from forebay.protocol.packs.tombstones import Tombstone
from harness.pack_views import member, pack, view_of
from harness.packed_objects import SHARDS

OLD, NEW = 512, 1024
"""Where the members of the older and of the newer pack begin."""


@pytest.fixture
def two() -> PackView:
    """The key b is in both."""
    old = pack(1.0, [member("a", OLD), member("b", OLD)])
    return view_of(old, pack(2.0, [member("b", NEW), member("c", NEW)]))


async def offset(view: PackView, key: str) -> int | None:
    found = await view.find(key)
    return found.member.offset if found is not None else None


async def test_the_newest_pack_answers_for_a_key_of_several(two: PackView) -> None:
    assert [await offset(two, key) for key in "abcd"] == [OLD, NEW, NEW, None]
    assert [found.member.offset for key in "abc" if (found := two.find_nowait(key))] == [OLD, NEW, NEW]
    assert two.find_nowait("d") is None
    assert two.members == 4


async def test_an_older_pack_waits_until_the_newest_is_known(two: PackView) -> None:
    """What is in the page cache of one and not of the other would be a stale member."""
    newest, oldest = two.indexes
    await oldest.block(0)
    assert two.find_nowait("b") is None
    assert two.find_nowait("a") is None, "the newer one may have it"
    await newest.block(0)
    found = two.find_nowait("b")
    assert found is not None
    assert found.member.offset == NEW


async def test_a_deleted_member_shows_that_of_an_older_pack(two: PackView) -> None:
    """As its tombstones say; a delete writes one for each."""
    assert [(each.tombstone, each.is_applied) for each in await two.tombstones("b")] == [
        (Tombstone("b", SHARDS[0].key, NEW), False),
        (Tombstone("b", SHARDS[0].key, OLD), False),
    ]
    assert len(await two.tombstones("a")) == 1
    await two.indexes[0].hide([Tombstone("b", SHARDS[0].key, NEW)])
    assert await offset(two, "b") == OLD
    assert [each.is_applied for each in await two.tombstones("b")] == [True, False]
    await two.indexes[1].hide([Tombstone("b", SHARDS[0].key, OLD)])
    assert await offset(two, "b") is None
    assert two.find_nowait("b") is None
    assert [each.key for each in await two.members_behind("", "", None, 10)] == ["a", "c"]


async def test_a_damaged_pack_makes_its_keys_unavailable_not_stale() -> None:
    damaged = pack(2.0, [member("b", NEW)], damaged=True)
    view = view_of(pack(1.0, [member("b", OLD)]), damaged)
    await view.indexes[1].block(0)
    with pytest.raises(PackUnavailable, match=r"packed/0\.index"):
        await view.find("b")
    with pytest.raises(PackUnavailable, match=r"packed/0\.index"):
        await view.tombstones("b")
    with pytest.raises(PackUnavailable, match=r"packed/0\.index"):
        await view.members_behind("", "", None, 10)
    assert view.find_nowait("b") is None


def test_a_key_written_since_or_shadowed_may_be_an_object() -> None:
    fences = Fences(2)
    view = view_of(pack(1.0, [member("a")]), fences=fences, shadowed=frozenset({"s"}))
    assert [view.may_be_object(key) for key in "as"] == [False, True]
    fences.raise_object(ObjectName("bucket", "a"))
    fences.raise_object(ObjectName("other", "b"))
    assert [view.may_be_object(key) for key in "abs"] == [True, False, True]
    assert not view.is_outrun
    fences.raise_object(ObjectName("other", "c"))
    assert [view.may_be_object("b"), view.is_outrun] == [True, True]


@pytest.mark.parametrize(
    ("after", "prefix", "end", "limit", "keys"),
    [
        ("", "", None, 10, ["a/1", "a/2", "b/1", "b/2", "b0", "c/1"]),
        ("a/1", "", None, 10, ["a/2", "b/1", "b/2", "b0", "c/1"]),
        ("", "b/", None, 10, ["b/1", "b/2"]),
        ("b/1", "b/", None, 10, ["b/2"]),
        ("", "b/1", None, 10, ["b/1"]),
        ("", "b", None, 10, ["b/1", "b/2", "b0"]),
        ("", "", "b/1", 10, ["a/1", "a/2", "b/1"]),
        ("", "", None, 3, ["a/1", "a/2", "b/1"]),
        ("", "x/", None, 10, []),
        ("c/1", "", None, 10, []),
    ],
)
async def test_members_behind_a_key(after: str, prefix: str, end: str | None, limit: int, keys: list[str]) -> None:
    old = pack(1.0, [member("a/1", OLD), member("b/1", OLD), member("c/1", OLD)], "a/", "b/", "c/")
    view = view_of(
        old, pack(3.0, []), pack(2.0, [member("a/2", NEW), member("b/1", NEW), member("b/2", NEW), member("b0", NEW)])
    )
    found = await view.members_behind(after, prefix, end, limit)
    assert [each.key for each in found] == keys
    assert all(each.offset == NEW for each in found if each.key == "b/1")
