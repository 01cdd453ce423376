"""Room in the journal: what was accepted since the size was measured counts."""

import asyncio
import errno

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.write.back.accept.journal_room import DENIED_SECONDS, ROOM_SECONDS, JournalRoom


class _Files:
    """The files of a journal, which take as long to be measured as a test likes."""

    def __init__(self) -> None:
        self.used = 0
        self.now = 0.0
        self.takes = 0.0
        self.measured = 0
        self.is_broken = False
        self.tasks = TaskRegistry()
        self.room = JournalRoom(1000, self._measure, self.tasks, lambda: self.now)

    async def _measure(self) -> int:
        self.measured += 1
        used = self.used
        await asyncio.sleep(0)
        self.now += self.takes
        if self.is_broken:
            raise OSError(errno.EIO, "EIO")
        return used


async def test_what_was_accepted_counts_until_it_is_measured() -> None:
    files = _Files()
    room = files.room
    await room.measure()
    assert await room.has_room(500)
    assert not await room.has_room(401)
    assert await room.has_room(400)
    assert not await room.has_room(1)
    files.now = ROOM_SECONDS + 0.1
    assert await room.has_room(900), "the files are measured anew"
    files.used, files.now = 899, 2 * ROOM_SECONDS + 0.2
    assert not await room.has_room(11), "more than goes on beside the measurement"
    assert (room.used, await room.has_room(2), await room.has_room(1)) == (899, False, True)


async def test_what_is_accepted_during_a_measurement_counts() -> None:
    files = _Files()
    await files.room.measure()
    measuring = files.tasks.spawn(files.room.measure(), "measure")
    await asyncio.sleep(0)
    assert await files.room.has_room(600)
    assert not measuring.done()
    await measuring
    assert (files.room.used, await files.room.has_room(301), await files.room.has_room(300)) == (600, False, True)


async def test_one_measurement_is_under_way_at_a_time() -> None:
    """Whoever asks begins it, and all who ask meanwhile wait for it."""
    files = _Files()
    files.used = 899
    found = await asyncio.gather(*(files.room.has_room(1) for _ in range(3)))
    assert (found, files.measured) == ([True, False, False], 1)


async def test_a_small_write_does_not_wait_for_a_measurement() -> None:
    files = _Files()
    files.used, room = 500, files.room
    await room.measure()
    files.now, files.used = ROOM_SECONDS + 0.1, 890
    asked = [files.tasks.spawn(room.has_room(size), "ask") for size in (4, 6, 1)]
    await asyncio.sleep(0)
    assert [each.done() for each in asked] == [True, True, False], "what goes on beside it is bounded"
    await files.tasks.wait_idle()
    assert ([each.result() for each in asked], files.measured) == ([True, True, False], 2)
    assert room.used == 900, "it counts as accepted since"


async def test_no_small_write_is_refused_for_an_old_size() -> None:
    files = _Files()
    files.used, room = 900, files.room
    await room.measure()
    files.now, files.used = ROOM_SECONDS + 0.1, 0
    assert await room.has_room(1)


async def test_a_small_write_waits_for_the_first_measurement() -> None:
    files = _Files()
    files.used = 900
    assert not await files.room.has_room(1)


async def test_a_long_measurement_is_made_seldom() -> None:
    files = _Files()
    files.takes = 2.0
    await files.room.measure()
    files.now += 39
    assert files.room.used == 0
    files.now += 2
    assert files.room.used == 0
    await files.tasks.wait_idle()
    assert files.measured == 2


async def test_the_known_size_stays_where_it_can_not_be_measured(caplog: pytest.LogCaptureFixture) -> None:
    files = _Files()
    files.used = 700
    await files.room.measure()
    files.is_broken = True
    await files.room.measure()
    assert files.room.used == 700
    assert "the journal can't be measured" in caplog.text


async def test_a_failure_to_measure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A metric and a write look each second, for as long as the disk is away."""
    files = _Files()
    for files.is_broken in (True, True, False, True):
        await files.room.measure()
    assert caplog.text.count("the journal can't be measured: EIO") == 2


async def test_what_was_removed_is_free_at_once() -> None:
    files = _Files()
    files.used, room = 900, files.room
    await room.measure()
    assert (room.is_full, await room.has_room(1)) == (True, False)
    room.release(300)
    assert (room.is_full, await room.has_room(300), await room.has_room(1)) == (False, True, False)
    room.release(5000)
    assert not await room.has_room(901)


async def test_the_journal_of_an_ending_process_takes_nothing() -> None:
    files = _Files()
    files.room.is_ending = True
    assert not await files.room.has_room(0)
    await files.tasks.wait_idle()


async def test_a_part_has_room_while_requests_under_way_are_finished() -> None:
    files = _Files()
    room = files.room
    room.is_ending = True
    assert not await room.has_room(1, for_part=True), "served on for a while, its upload goes on at the origin"
    room.is_finishing = True
    assert not await room.has_room(1)
    assert await room.has_room(900, for_part=True)
    assert not await room.has_room(1, for_part=True), "it is full"
    await files.tasks.wait_idle()


async def test_a_write_without_room_makes_it_full_until_it_would_fit() -> None:
    files = _Files()
    files.used, room = 700, files.room
    await room.measure()
    assert (room.is_full, await room.has_room(300), room.is_full) == (False, False, True)
    assert await room.has_room(100), "smaller ones pass"
    room.release(300)
    assert not room.is_full
    assert (await room.has_room(401), room.is_full) == (False, True)
    files.now, files.used = DENIED_SECONDS + 1, 700
    await room.measure()
    assert not room.is_full, "nobody has asked for long"


async def test_what_an_empty_journal_could_not_hold_does_not_make_it_full() -> None:
    files = _Files()
    await files.room.measure()
    assert (await files.room.has_room(901), files.room.is_full) == (False, False)


async def test_before_the_first_measurement_nothing_is_used() -> None:
    files = _Files()
    assert (files.room.used, files.room.is_full) == (0, False)
    await files.tasks.close()


async def test_a_measurement_replaces_what_was_accepted_before_it() -> None:
    files = _Files()
    files.room.fill(600)
    files.used = 600
    await files.room.measure()
    assert files.room.used == 600


@pytest.mark.parametrize(("takes", "until_next"), [(0.0, ROOM_SECONDS), (2.0, 40.0)])
async def test_a_long_measurement_is_not_repeated_at_once(takes: float, until_next: float) -> None:
    files = _Files()
    files.takes = takes
    await files.room.measure()
    for later, measured in ((until_next, 1), (0.1, 2)):
        files.now += later
        assert files.room.used == 0
        await files.tasks.wait_idle()
        assert files.measured == measured


async def test_the_end_of_a_process_is_no_lack_of_room() -> None:
    files = _Files()
    await files.room.measure()
    files.room.fill(1)
    files.room.is_ending = True
    assert not await files.room.has_room(900)
    assert not files.room.is_full
