import gc
import os
import random
import resource

import pytest

from forebay.stores.memory import MemoryTier
from forebay.stores.shared import SharedBlock, shared
from harness.ssd_rig import MIB, block_id


def test_a_shared_block_is_the_same_bytes_and_nobody_can_write_to_it() -> None:
    content = random.Random(1).randbytes(300_001)
    block = shared(memoryview(content))
    assert block is not None
    assert block == content
    assert block.readonly
    assert isinstance(block.obj, SharedBlock)
    assert os.pread(block.obj.fd, 400_000, 0) == content


def test_its_file_is_closed_when_the_last_user_lets_go() -> None:
    gc.collect()
    before = SharedBlock.count
    block = shared(memoryview(bytes(1000)))
    assert block is not None
    assert isinstance(block.obj, SharedBlock)
    fd, part = block.obj.fd, block[10:20]
    assert SharedBlock.count == before + 1
    del block
    assert bytes(part) == bytes(10)
    assert os.fstat(fd).st_size == 1000
    del part
    assert SharedBlock.count == before
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_one_that_could_not_be_made_leaves_nothing_behind() -> None:
    """Not a word on standard error, either: warnings of what can't be raised are errors here."""
    before = SharedBlock.count
    with pytest.raises(OSError, match="Bad file descriptor"):
        SharedBlock(1 << 20, 10)
    gc.collect()
    assert SharedBlock.count == before


def test_there_are_no_more_than_the_process_may_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        blocks = [shared(memoryview(b"x")) for _ in range(40)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert 0 < sum(block is not None for block in blocks) <= 256 // 16
    assert shared(memoryview(b"")) is None


def test_it_takes_the_place_of_the_very_block_that_was_copied() -> None:
    tier = MemoryTier(16 * MIB)
    old, new = memoryview(bytes(MIB)), shared(memoryview(bytes(MIB)))
    assert new is not None
    tier.admit(block_id("a"), old)
    kept = tier.get(block_id("a"))
    assert kept is not None
    used = tier.occupancy().used
    tier.replace(block_id("a"), kept, new)
    assert tier.get(block_id("a")) is new
    tier.replace(block_id("a"), kept, old)
    assert tier.get(block_id("a")) is new
    tier.forget(block_id("a").object)
    tier.replace(block_id("a"), new, new)
    assert not tier.has(block_id("a"))
    tier.admit(block_id("a"), new)
    assert tier.occupancy().used == used
    assert tier.get(block_id("a")) == old
