"""Arenas, the memory files of promoted blocks, for tests of who has them."""

from collections import deque

from forebay.storage.memory.shared_blocks import Arena

MIB = 1 << 20


def arena_of(size: int) -> Arena:
    """An arena with one block."""
    arena = Arena(size, 0, deque())
    arena.end = size
    assert arena.write(0, memoryview(b"x" * size)) is not None
    return arena
