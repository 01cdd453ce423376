import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.events import CorruptionFound
from forebay.storage.ssd.recovery import SsdOptions
from forebay.storage.ssd.segments.record import SLICE, header_size
from forebay.storage.ssd.segments.verified_extents import (
    SETTLED_SECONDS,
    VALID_SECONDS,
    VerifiedExtent,
    VerifiedExtents,
    slice_bits,
)
from forebay.storage.ssd.ssd_tier import SsdTier
from forebay.storage.tier_contract import Busy, Miss
from harness.ssd_rig import (
    MIB,
    RecordedEvents,
    block_id,
    commit_blocks,
    content_of,
    drop_page_cache,
    open_tier,
    read_block,
    wait_for_reclaim,
)

ADDRESS, ROW = b"a" * 28, b"r" * 12
CHANGED = 1_700_000_000.0
STATE = (int(CHANGED * 1e9), 64 << 20, 7)
NOW = CHANGED + SETTLED_SECONDS + 1


def test_verified_slices_add_up() -> None:
    verified = VerifiedExtents()
    assert verified.slices(ADDRESS, ROW, STATE, NOW) == 0
    verified.add(ADDRESS, ROW, STATE, slice_bits(range(2, 4)), NOW)
    assert verified.slices(ADDRESS, ROW, STATE, NOW) == 0b1100
    verified.add(ADDRESS, ROW, STATE, slice_bits(range(1)), NOW + 1)
    assert verified.slices(ADDRESS, ROW, STATE, NOW + 1) == 0b1101


def test_another_block_location_or_file_state_is_not_verified() -> None:
    verified = VerifiedExtents()
    verified.add(ADDRESS, ROW, STATE, 1, NOW)
    assert verified.slices(b"b" * 28, ROW, STATE, NOW) == 0
    assert verified.slices(ADDRESS, b"s" * 12, STATE, NOW) == 0
    for other in ((STATE[0] + 1, *STATE[1:]), (STATE[0], STATE[1] - 1, STATE[2]), (*STATE[:2], 8)):
        assert verified.slices(ADDRESS, ROW, other, NOW) == 0
        # Nor do verifications under two states add up.
        mixed = VerifiedExtents()
        mixed.add(ADDRESS, ROW, STATE, 0b01, NOW)
        mixed.add(ADDRESS, ROW, other, 0b10, NOW)
        assert (mixed.slices(ADDRESS, ROW, STATE, NOW), mixed.slices(ADDRESS, ROW, other, NOW)) == (0, 0b10)


def test_a_verification_expires_and_is_not_prolonged() -> None:
    verified = VerifiedExtents()
    verified.add(ADDRESS, ROW, STATE, 0b01, NOW)
    verified.add(ADDRESS, ROW, STATE, 0b10, NOW + VALID_SECONDS - 1)
    assert verified.slices(ADDRESS, ROW, STATE, NOW + VALID_SECONDS - 1) == 0b11
    assert verified.slices(ADDRESS, ROW, STATE, NOW + VALID_SECONDS) == 0
    verified.add(ADDRESS, ROW, STATE, 0b10, NOW + VALID_SECONDS)
    assert verified.slices(ADDRESS, ROW, STATE, NOW + VALID_SECONDS) == 0b10
    assert verified.slices(ADDRESS, ROW, STATE, NOW + VALID_SECONDS - 1) == 0  # the clock was set back


def test_a_file_that_just_changed_is_not_recorded() -> None:
    """The next change could have the same timestamp."""
    verified = VerifiedExtents()
    for began in (CHANGED - 10, CHANGED, CHANGED + SETTLED_SECONDS / 2):
        verified.add(ADDRESS, ROW, STATE, 1, began)
        assert len(verified) == 0
    verified.add(ADDRESS, ROW, STATE, 1, CHANGED + SETTLED_SECONDS)
    assert len(verified) == 1


def test_the_table_is_bounded_and_drops_the_oldest_entry() -> None:
    verified = VerifiedExtents(limit=3)
    for nth in range(10):
        verified.add(bytes([nth]) * 28, ROW, STATE, 1, NOW)
        assert len(verified) <= 3
    left = [nth for nth in range(10) if verified.slices(bytes([nth]) * 28, ROW, STATE, NOW)]
    assert left == [7, 8, 9]


LENGTH = MIB - 100
WHOLE = Span(0, LENGTH)
BLOCK = block_id("a")
FIRST_SLICE = header_size(LENGTH)


class Clock:
    """The kernel's clock, set by hand."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def settle(self) -> None:
        """Sets the clock to when the segments' last change is well over."""
        self.now = max(file.stat().st_ctime for file in self._path.rglob("*.seg")) + SETTLED_SECONDS + 1


@asynccontextmanager
async def one_block(tmp_path: Path) -> AsyncIterator[tuple[SsdTier, Clock, RecordedEvents, Path]]:
    """Yields a tier with one block, whose segment changed long ago."""
    heard, clock = RecordedEvents(), Clock(tmp_path)
    tier = open_tier(tmp_path / "ssd", heard, clock=clock, options=SsdOptions(segment_floor=4 * MIB))
    await commit_blocks(tier, (BLOCK, LENGTH))
    clock.settle()
    (segment,) = (tmp_path / "ssd" / "segments").iterdir()
    yield tier, clock, heard, segment
    await tier.close()


def is_verified(tier: SsdTier, within: Span = WHOLE) -> bool:
    """Returns whether the bytes would be sent without being read."""
    return isinstance(tier.verify_nowait(BLOCK, LENGTH, within, read=False), VerifiedExtent)


def verify(tier: SsdTier, within: Span = WHOLE) -> Buffer | None:
    found = tier.verify_nowait(BLOCK, LENGTH, within, read=True)
    if isinstance(found, VerifiedExtent):
        return memoryview(os.pread(found.file.fd, within.stop - within.start, found.offset))
    assert isinstance(found, Miss)
    return None


async def test_a_verified_block_is_not_read_again(tmp_path: Path) -> None:
    async with one_block(tmp_path) as (tier, _, _, _):
        assert not is_verified(tier)
        assert verify(tier) == content_of(BLOCK, LENGTH)
        assert is_verified(tier)
        assert is_verified(tier, Span(5, LENGTH - 5))
        assert verify(tier, Span(7, 99_999)) == content_of(BLOCK, LENGTH)[7:99_999]
        # Still only as the block that it is.
        assert isinstance(tier.verify_nowait(block_id("b"), LENGTH, WHOLE, read=True), Miss)
        for span in (Span(0, 0), Span(0, LENGTH + 1), Span(-1, 1)):
            assert isinstance(tier.verify_nowait(BLOCK, LENGTH, span, read=True), Miss)
        assert isinstance(tier.verify_nowait(BLOCK, LENGTH - 1, Span(0, 100_000), read=True), Miss)


@pytest.mark.parametrize("wait", [False, True])
async def test_a_read_verifies_as_well(tmp_path: Path, wait: bool) -> None:
    async with one_block(tmp_path) as (tier, _, _, _):
        if wait:
            assert await tier.read(BLOCK, LENGTH, WHOLE) is not None
        else:
            assert await read_block(tier, BLOCK, LENGTH) is not None
        assert is_verified(tier)


async def test_slices_are_verified_one_by_one(tmp_path: Path) -> None:
    async with one_block(tmp_path) as (tier, _, _, _):
        verify(tier, Span(SLICE + 1, 2 * SLICE + 1))
        assert is_verified(tier, Span(SLICE, 3 * SLICE))
        assert not is_verified(tier, Span(SLICE - 1, 3 * SLICE))
        assert not is_verified(tier, Span(SLICE, 3 * SLICE + 1))
        assert verify(tier) == content_of(BLOCK, LENGTH)
        assert is_verified(tier)


async def test_a_changing_segment_is_verified_at_each_read(tmp_path: Path) -> None:
    async with one_block(tmp_path) as (tier, clock, _, _):
        verify(tier)
        assert is_verified(tier)
        await commit_blocks(tier, (block_id("b"), 5000))  # appended to the same segment
        assert not is_verified(tier)
        clock.now -= SETTLED_SECONDS
        assert verify(tier) is not None
        assert not is_verified(tier)
        clock.settle()
        assert verify(tier) is not None
        assert is_verified(tier)


async def test_a_verification_is_valid_for_a_minute(tmp_path: Path) -> None:
    async with one_block(tmp_path) as (tier, clock, _, _):
        verify(tier)
        clock.now += VALID_SECONDS - 0.1
        assert is_verified(tier)
        clock.now += 0.2
        assert not is_verified(tier)
        assert verify(tier) is not None
        assert is_verified(tier)


def _write(at: int) -> Callable[[Path], None]:
    def write(segment: Path) -> None:
        with segment.open("r+b") as file:
            file.seek(at)
            file.write(b"damage")

    return write


def _written_and_redated(segment: Path) -> None:
    before = segment.stat()
    _write(FIRST_SLICE + 5)(segment)
    os.utime(segment, ns=(before.st_atime_ns, before.st_mtime_ns))


def _written_over(segment: Path) -> None:
    segment.write_bytes(bytes(segment.stat().st_size))


def _cut_and_stretched(segment: Path) -> None:
    size = segment.stat().st_size
    os.truncate(segment, size // 2)
    os.truncate(segment, size)


def _cut(segment: Path) -> None:
    os.truncate(segment, 1000)


DAMAGES = {
    "the first slice": _write(FIRST_SLICE + 5),
    "the last slice": _write(FIRST_SLICE + LENGTH - 10),
    "who it is": _write(14),
    "a checksum in the header": _write(50),
    "a write, dated back": _written_and_redated,
    "all of it, in place": _written_over,
    "cut": _cut,
    "cut, and stretched with zeros": _cut_and_stretched,
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_after_a_verification_is_a_miss_at_once(tmp_path: Path, damage: str) -> None:
    async with one_block(tmp_path) as (tier, _, heard, segment):
        verify(tier)
        assert is_verified(tier)
        DAMAGES[damage](segment)
        assert not is_verified(tier)
        if damage == "cut":
            assert isinstance(tier.verify_nowait(BLOCK, LENGTH, WHOLE, read=True), Busy)  # left to a read that waits
            assert await tier.read(BLOCK, LENGTH, WHOLE) is None
        else:
            assert verify(tier) is None
        assert heard.of(CorruptionFound)
        await tier.flush()
        assert not tier.has(BLOCK)


async def test_a_range_notices_damage_only_in_its_own_slices(tmp_path: Path) -> None:
    async with one_block(tmp_path) as (tier, _, _, segment):
        verify(tier)
        _write(FIRST_SLICE + 5 * SLICE)(segment)
        assert verify(tier, Span(6 * SLICE, 8 * SLICE)) == content_of(BLOCK, LENGTH)[6 * SLICE : 8 * SLICE]
        assert verify(tier, Span(5 * SLICE + 100, 7 * SLICE)) is None


async def test_a_replaced_segment_file_is_noticed(tmp_path: Path) -> None:
    """The old file is still open: it is read on, but verified again."""
    async with one_block(tmp_path) as (tier, _, _, segment):
        verify(tier)
        shutil.copy(segment, segment.with_suffix(".copy"))
        _write(FIRST_SLICE + 5)(segment.with_suffix(".copy"))
        segment.with_suffix(".copy").replace(segment)
        assert not is_verified(tier)
        assert verify(tier) == content_of(BLOCK, LENGTH)


async def test_a_forgotten_block_is_not_verified(tmp_path: Path) -> None:
    async with one_block(tmp_path) as (tier, clock, _, _):
        verify(tier)
        await tier.forget(BLOCK.object)
        assert isinstance(tier.verify_nowait(BLOCK, LENGTH, WHOLE, read=False), Miss)
        await commit_blocks(tier, (BLOCK, LENGTH))  # the same block at another location
        clock.settle()
        assert not is_verified(tier)
        assert verify(tier) == content_of(BLOCK, LENGTH)


async def test_a_reclaimed_block_is_not_verified(tmp_path: Path) -> None:
    async with one_block(tmp_path) as (tier, _, _, segment):
        verify(tier)
        tier.resize(0)
        await wait_for_reclaim(tier, 64 * 1024)
        assert not segment.exists()
        assert isinstance(tier.verify_nowait(BLOCK, LENGTH, WHOLE, read=True), Miss)


async def test_bytes_that_left_the_page_cache_are_busy(tmp_path: Path) -> None:
    async with one_block(tmp_path) as (tier, _, _, segment):
        verify(tier)
        drop_page_cache(segment)
        found = tier.verify_nowait(BLOCK, LENGTH, WHOLE, read=True)
        if isinstance(found, VerifiedExtent):
            pytest.skip("this file system lives in memory")
        assert isinstance(found, Busy)
        assert await tier.read(BLOCK, LENGTH, WHOLE) == content_of(BLOCK, LENGTH)
        assert is_verified(tier)


def may_go_on(found: VerifiedExtent, within: Span = WHOLE) -> bool:
    """Returns whether it may still be sent."""
    return found.is_unchanged() and found.is_verified(found.offset, found.offset + within.stop - within.start)


@asynccontextmanager
async def being_sent(
    tmp_path: Path, within: Span = WHOLE
) -> AsyncIterator[tuple[SsdTier, Clock, RecordedEvents, Path, VerifiedExtent]]:
    """Yields an extent that is sent to a slow client."""
    async with one_block(tmp_path) as (tier, clock, heard, segment):
        found = tier.verify_nowait(BLOCK, LENGTH, within, read=True)
        assert isinstance(found, VerifiedExtent)
        assert may_go_on(found, within)
        yield tier, clock, heard, segment, found


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_while_sending_is_noticed(tmp_path: Path, damage: str) -> None:
    async with being_sent(tmp_path) as (tier, _, heard, segment, found):
        DAMAGES[damage](segment)
        assert not found.is_unchanged()
        assert not may_go_on(found)
        assert not found.verify_again(found.offset, found.offset + LENGTH)
        assert heard.of(CorruptionFound)
        await tier.flush()
        assert not tier.has(BLOCK)


async def test_only_unsent_bytes_are_verified_again(tmp_path: Path) -> None:
    within = Span(100, LENGTH - 100)
    async with being_sent(tmp_path, within) as (_, clock, _, segment, found):
        _write(FIRST_SLICE + 5 * SLICE)(segment)
        clock.settle()
        behind, stop = FIRST_SLICE + 6 * SLICE, found.offset + within.stop - within.start
        assert not found.is_verified(behind, stop)
        assert found.verify_again(behind, stop)
        assert found.is_unchanged()
        assert found.is_verified(behind, stop)
        assert not found.is_verified(behind - 1, stop)
        assert not found.verify_again(behind - 1, stop)


async def test_a_slow_client_outlasts_a_verification(tmp_path: Path) -> None:
    async with being_sent(tmp_path) as (_, clock, _, _, found):
        clock.now += VALID_SECONDS
        assert found.is_unchanged()
        assert not may_go_on(found)
        assert found.verify_again(found.offset, found.offset + LENGTH)
        assert may_go_on(found)


async def test_a_segment_deleted_while_it_is_sent_is_sent_whole(tmp_path: Path) -> None:
    """Its bytes are there until the last reader drops it."""
    async with being_sent(tmp_path) as (tier, _, _, segment, found):
        tier.resize(0)
        await wait_for_reclaim(tier, 64 * 1024)
        assert not segment.exists()
        assert not found.is_unchanged()
        assert found.verify_again(found.offset, found.offset + LENGTH)
        assert found.is_unchanged()


async def test_an_extent_that_left_the_page_cache_is_verified_again(tmp_path: Path) -> None:
    async with being_sent(tmp_path) as (_, _, _, segment, found):
        drop_page_cache(segment)
        if may_go_on(found):
            pytest.skip("this file system lives in memory")
        assert found.is_unchanged()
        assert found.verify_again(found.offset, found.offset + LENGTH)
        assert may_go_on(found)
