"""Memory files that clients have: which are passed, how much, and when they are let go of."""

import os
from collections import deque

import pytest

from forebay.core.names import BlockId, Generation, ObjectName
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access
from forebay.server.shared_memory.passed_files import PassedFiles, may_have
from forebay.storage.memory.arenas import Arenas
from forebay.storage.memory.shared_blocks import HUGE, Arena
from harness.arenas import MIB, arena_of


def reader_of(*paths: str, access: Access = Access.READ) -> Principal:
    return Principal("reader", tuple(Grant(Pattern(path), frozenset({access})) for path in paths))


def block_of(key: str) -> BlockId:
    return BlockId(ObjectName("b", key), Generation(b"g" * 8), 0)


@pytest.mark.parametrize(
    ("reader", "may"),
    [
        (reader_of("**"), True),
        (reader_of("b/open/**"), True),
        (reader_of("b/open/1", "b/open/2"), True),
        (reader_of("b/open/1"), False),
        (reader_of("b/closed/**"), False),
        (reader_of("other/**"), False),
        (reader_of("b/**", access=Access.LIST), False),
        (reader_of(), False),
    ],
)
def test_a_file_is_for_who_may_read_every_object_in_it(reader: Principal, may: bool) -> None:  # a parameter
    arena = arena_of(MIB)
    arena.blocks |= {block_of("open/1"), block_of("open/2")}
    assert may_have(reader, arena) is may


def test_a_file_of_unknown_blocks_is_for_who_reads_all() -> None:
    """Its bytes are written before its block is listed."""
    assert not may_have(reader_of("b/**"), arena_of(MIB))
    assert may_have(reader_of("**"), arena_of(MIB))


def test_a_file_that_has_lost_a_block_is_for_who_may_read_everything() -> None:
    """Its bytes are still there, and nobody knows whose they were."""
    arenas = Arenas(1 << 30)
    extents = [arenas.allocate(MIB, 1 << 30) for _ in range(2)]
    for extent, key in zip(extents, ("open/1", "closed/1"), strict=True):
        assert extent is not None
        shared = extent.arena.write(extent.offset, memoryview(b"x" * MIB))
        assert shared is not None
        arenas.add_block(block_of(key), shared)
    arena = extents[0].arena  # type: ignore[union-attr] # as was asserted
    assert arena.is_full
    assert not may_have(reader_of("b/open/**"), arena)
    arenas.remove_block(block_of("closed/1"), MIB)
    assert not may_have(reader_of("b/open/**"), arena)
    assert not may_have(reader_of("b/**"), arena)
    assert may_have(reader_of("**"), arena)
    arenas.remove_block(block_of("open/1"), MIB)
    assert not may_have(reader_of("b/**"), arena)


def test_a_file_is_kept_as_long_as_a_client_has_it() -> None:
    files, arena = PassedFiles(), arena_of(MIB)
    passed = files.share(arena, 2 * MIB)
    assert passed is not None
    reader = passed.open_reader()
    files.drop_released()
    assert (len(files), files.size) == (1, MIB)
    os.close(reader)
    files.drop_released()
    assert (len(files), files.size) == (0, 0)


def test_a_file_is_passed_again_when_a_client_has_let_go_of_it() -> None:
    files, arena = PassedFiles(), arena_of(MIB)
    for _ in range(3):
        passed = files.share(arena, MIB)
        assert passed is not None
        os.close(passed.open_reader())
        files.drop_released()
        assert len(files) == 0


def test_a_second_client_gets_the_same_file() -> None:
    files, arena = PassedFiles(), arena_of(MIB)
    assert files.share(arena, MIB) is files.share(arena, 0)
    files.close()


def test_no_more_than_the_limit_is_passed() -> None:
    files, arenas = PassedFiles(), [arena_of(MIB) for _ in range(3)]
    assert [files.share(arena, 2 * MIB) is not None for arena in arenas] == [True, True, False]
    files.drop_released()
    assert files.share(arenas[2], 2 * MIB) is not None
    files.close()


def test_a_file_that_is_still_filled_is_not_passed() -> None:
    arena = Arena(2 * HUGE, 0, deque())
    arena.end = MIB
    assert arena.write(0, memoryview(b"x" * MIB)) is not None
    files = PassedFiles()
    assert files.share(arena, 1 << 40) is None
    arena.end, arena.copying = HUGE, 1
    assert files.share(arena, 1 << 40) is None
    arena.copying = 0
    assert files.share(arena, 1 << 40) is not None
    files.close()


def test_nothing_is_written_to_a_file_that_was_passed() -> None:
    """What a client sees through a descriptor was there when it got it."""
    files, arena = PassedFiles(), arena_of(MIB)
    assert files.share(arena, MIB) is not None
    assert arena.write(0, memoryview(b"y" * 10)) is None
    files.close()
