"""Pending objects: the last write of an object is what readers see, and its bytes are found by their block."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import BlockId, ObjectName, Version
from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.body_file import BodyDamaged, BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import NAMES, BodyPart, Deleted, PendingObjects, PendingVersion

NAME = ObjectName("b", "k")
FILES = {"f": b"0123456789"}


async def _read_body(ref: BodyRef, span: Span) -> Buffer:
    return memoryview(FILES[ref.id])[span.start : span.stop]


def _head(etag: str, size: int) -> Head:
    return head_of(ObjectFacts(Version(etag), size, "", ()), 65536, 0.0)


def _version(number: int, head: Head | None, *parts: BodyPart) -> PendingVersion:
    return PendingVersion(RecordId("log", number), number, head, parts)


def _small(content: bytes) -> BodyPart:
    return BodyPart(len(content), content, None)


async def test_the_last_write_is_seen_however_they_come() -> None:
    pending = PendingObjects(_read_body)
    first, second = _head('"1"', 3), _head('"2"', 3)
    pending.add(NAME, _version(2, second, _small(b"two")))
    pending.add(NAME, _version(1, first, _small(b"one")))
    assert pending.head(NAME) == second
    pending.add(NAME, _version(3, None))
    assert isinstance(pending.head(NAME), Deleted)
    for head, content in ((first, b"one"), (second, b"two")):
        assert bytes(await pending.read(BlockId(NAME, head.generation, 0), Span(0, 3)) or b"") == content
    for number in (1, 2, 3):
        pending.remove(NAME, RecordId("log", number))
    assert (NAME in pending, pending.head(NAME), len(pending)) == (False, None, 0)


async def test_ranges_join_the_parts_of_an_upload() -> None:
    pending, head = PendingObjects(_read_body), _head('"1-3"', 18)
    file = BodyPart(10, b"", BodyRef("f", 10, 0))
    pending.add(NAME, _version(1, head, _small(b"abcd"), file, _small(b"wxyz")))
    whole = b"abcd0123456789wxyz"
    block = BlockId(NAME, head.generation, 0)
    for start in range(18):
        for stop in range(start + 1, 19):
            assert bytes(await pending.read(block, Span(start, stop)) or b"") == whole[start:stop]
    assert await pending.read(BlockId(NAME, _head('"other"', 1).generation, 0), Span(0, 1)) is None


async def test_a_barrier_waits_for_what_was_there() -> None:
    pending = PendingObjects(_read_body)
    await pending.wait_settled(lambda _: True)
    pending.add(NAME, _version(1, None))
    waiting = TaskRegistry().spawn(pending.wait_settled(NAME.__eq__), "wait")
    await asyncio.sleep(0)
    pending.add(NAME, _version(2, None))
    assert not waiting.done()
    pending.remove(NAME, RecordId("log", 1))
    await waiting
    assert NAME in pending


async def test_a_barrier_of_names_waits_for_these() -> None:
    pending, other = PendingObjects(_read_body), ObjectName("b", "other")
    pending.add(NAME, _version(1, None))
    assert (pending.any((NAME, other)), pending.any((other,)), pending.any(other.__eq__)) == (True, False, False)
    await pending.wait_settled((other,))
    waiting = TaskRegistry().spawn(pending.wait_settled((NAME, other)), "wait")
    await asyncio.sleep(0)
    assert not waiting.done()
    pending.remove(NAME, RecordId("log", 1))
    await waiting


async def test_others_have_their_turn_while_names_are_looked_at() -> None:
    """Some names are looked at in one go. What is settled meanwhile is not waited for."""
    pending, names = PendingObjects(_read_body), [ObjectName("b", f"k{number}") for number in range(5 * NAMES)]
    for number, name in enumerate(names):
        pending.add(name, _version(number, None))
    waiting = TaskRegistry().spawn(pending.wait_settled(lambda name: name in names[:2] or name in names[-2:]), "wait")
    for number in (0, 5 * NAMES - 1):
        await asyncio.sleep(0)
        pending.remove(names[number], RecordId("log", number))
    turns = 0
    while not waiting.done():
        await asyncio.sleep(0)
        turns += 1
        if turns == 2 * 5:
            for number in (1, 5 * NAMES - 2):
                pending.remove(names[number], RecordId("log", number))
    assert 2 * 5 <= turns <= 3 * 5


def test_names_are_listed_in_their_order() -> None:
    pending = PendingObjects(_read_body)
    for nth, key in enumerate(("p/\U00010000", "p/\uffff", "q", "p/a")):
        pending.add(ObjectName("b", key), _version(nth, None))
    assert [key for key, _ in pending.listed("b", "p/")] == ["p/a", "p/\uffff", "p/\U00010000"]


async def test_a_damage_is_known_until_the_write_is_settled() -> None:
    pending, head = PendingObjects(_read_damaged), _head('"1"', 3)
    pending.add(NAME, _version(1, head, BodyPart(3, b"", BodyRef("f", 3, 0))))
    assert pending.damage(NAME, head.generation) is None
    with pytest.raises(BodyDamaged):
        await pending.read(BlockId(NAME, head.generation, 0), Span(0, 3))
    assert pending.damage(NAME, head.generation) == "its MiB 0"
    pending.remove(NAME, RecordId("log", 1))
    assert pending.damage(NAME, head.generation) is None


async def test_a_check_reads_each_write_once() -> None:
    """Any of them may be what a copy waits for."""
    reads = list[Span]()

    async def read(ref: BodyRef, span: Span) -> Buffer:
        reads.append(span)
        if ref.id == "bad":
            raise BodyDamaged("its MiB 1")
        return memoryview(bytes(span.length))

    pending, size = PendingObjects(read), (1 << 20) + 3
    for number, file in enumerate(("bad", "good")):
        head = _head(f'"{file}"', size)
        pending.add(NAME, _version(number, head, BodyPart(size, b"", BodyRef(file, size, 0))))
    pending.add(NAME, _version(2, None))
    assert pending.damage_of(NAME) is None
    for _ in range(2):
        await pending.check(NAME)
        assert pending.damage_of(NAME) == "its MiB 1"
        assert reads == [Span(0, 1 << 20), Span(0, 1 << 20), Span(1 << 20, size)]
    pending.remove(NAME, RecordId("log", 0))
    await pending.check(NAME)
    assert (pending.damage_of(NAME), len(reads)) == (None, 3)


async def test_a_body_that_was_removed_with_its_record_is_no_damage() -> None:
    """The origin has it: the reader came too late."""
    pending, head = PendingObjects(_read_damaged), _head('"1"', 3)
    version = _version(1, head, BodyPart(3, b"", BodyRef("f", 3, 0)))
    pending.add(NAME, version)
    read = pending.read(BlockId(NAME, head.generation, 0), Span(0, 3))
    reading = TaskRegistry().spawn(_failing(read), "read")
    await asyncio.sleep(0)
    pending.remove(NAME, version.record)
    await reading
    pending.add(NAME, version)
    assert pending.damage(NAME, head.generation) is None


async def _read_damaged(_ref: BodyRef, _span: Span) -> Buffer:
    await asyncio.sleep(0)
    raise BodyDamaged("its MiB 0")


async def _failing(read: Coroutine[Any, Any, object]) -> None:
    with pytest.raises(BodyDamaged):
        await read
