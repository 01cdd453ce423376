"""Room in the journal: what was accepted since the size was measured counts."""

from forebay.write.back.journal_room import ROOM_SECONDS, JournalRoom


def test_what_was_accepted_counts_until_it_is_measured() -> None:
    now, used = 0.0, 0
    room = JournalRoom(1000, lambda: used, lambda: now)
    assert room.has_room(500)
    assert not room.has_room(401)
    assert room.has_room(400)
    assert not room.has_room(1)
    now = ROOM_SECONDS + 0.1
    assert room.has_room(900), "the files are measured anew"
    used, now = 899, 2 * ROOM_SECONDS + 0.2
    assert not room.has_room(2)
    assert room.has_room(1)


def test_what_was_removed_is_free_at_once() -> None:
    room = JournalRoom(1000, lambda: 900, lambda: 0.0)
    assert (room.is_full, room.has_room(1)) == (True, False)
    room.release(300)
    assert (room.is_full, room.has_room(300), room.has_room(1)) == (False, True, False)
    room.release(5000)
    assert not room.has_room(901)


def test_the_journal_of_an_ending_process_takes_nothing() -> None:
    room = JournalRoom(1000, lambda: 0, lambda: 0.0)
    room.is_ending = True
    assert not room.has_room(0)
