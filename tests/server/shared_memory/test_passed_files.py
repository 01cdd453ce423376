"""Memory files that clients have: which are passed, how much, and when they are let go of."""

import os
from collections import deque

from forebay.server.shared_memory.passed_files import PassedFiles
from forebay.storage.memory.shared_blocks import HUGE, Arena

MIB = 1 << 20


def arena_of(size: int) -> Arena:
    """An arena with one block."""
    arena = Arena(size, 0, deque())
    arena.end = size
    assert arena.write(0, memoryview(b"x" * size)) is not None
    return arena


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
