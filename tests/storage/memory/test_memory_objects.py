"""The objects of a memory tier: here while a head or a block is kept."""

from forebay.core.names import ObjectName
from forebay.storage.memory.memory_objects import CachedObject, MemoryObjects
from harness.ssd_rig import block_id, head_for

NAME = ObjectName("bucket", "a")


def test_an_object_is_here_while_something_of_it_is_kept() -> None:
    objects, (_, head) = MemoryObjects(), head_for("a")
    objects.set_head(NAME, head)
    objects.add_block(block_id("a"), 100)
    objects.add_block(block_id("a", 1), 50)
    assert (objects.cached_bytes(NAME), objects.has_blocks(NAME)) == (150, True)
    assert not objects.remove_block(block_id("a"))
    assert objects.remove_block(block_id("a", 1)), "the last one of an object with a head"
    assert list(objects.names()) == [NAME]
    objects.set_head(NAME, None)
    assert (list(objects.names()), objects.blocks(NAME), objects.cached_bytes(NAME)) == ([], [], 0)


def test_the_last_block_of_an_object_without_a_head_leaves_nothing() -> None:
    objects = MemoryObjects()
    objects.add_block(block_id("a"), 100)
    assert not objects.remove_block(block_id("a"))
    assert list(objects.names()) == []


def test_a_listing_leaves_out_what_is_dropped_meanwhile() -> None:
    objects = MemoryObjects()
    for key in ("x/1", "x/2", "y/1"):
        objects.add_block(block_id(key), 10)
    steps = objects.listing("bucket", "x/", step=1)
    first = next(steps)
    objects.remove_block(block_id("x/2"))
    assert [first, *steps] == [[CachedObject(ObjectName("bucket", "x/1"), None, 10)], [], []]


def test_an_object_is_added_whole_only_where_nothing_of_it_is_kept() -> None:
    objects, (_, head) = MemoryObjects(), head_for("a")
    assert objects.add(NAME, head, block_id("a"), 100)
    assert not objects.add(NAME, head, block_id("a", 1), 50)
    assert (objects.blocks(NAME), objects.cached_bytes(NAME)) == ([block_id("a")], 100)
    assert objects.remove_block(block_id("a"))
