from forebay.storage.ssd.verified_extents import SETTLED_SECONDS, VALID_SECONDS, VerifiedExtents, slice_bits

ADDRESS, ROW = b"a" * 28, b"r" * 12
CHANGED = 1_700_000_000.0
STATE = (int(CHANGED * 1e9), 64 << 20, 7)
NOW = CHANGED + SETTLED_SECONDS + 1


def test_what_was_checked_need_not_be_checked_again() -> None:
    lately = VerifiedExtents()
    assert lately.slices(ADDRESS, ROW, STATE, NOW) == 0
    lately.add(ADDRESS, ROW, STATE, slice_bits(range(2, 4)), NOW)
    assert lately.slices(ADDRESS, ROW, STATE, NOW) == 0b1100
    lately.add(ADDRESS, ROW, STATE, slice_bits(range(1)), NOW + 1)
    assert lately.slices(ADDRESS, ROW, STATE, NOW + 1) == 0b1101


def test_another_block_place_or_state_of_the_file_inherits_nothing() -> None:
    lately = VerifiedExtents()
    lately.add(ADDRESS, ROW, STATE, 1, NOW)
    assert lately.slices(b"b" * 28, ROW, STATE, NOW) == 0
    assert lately.slices(ADDRESS, b"s" * 12, STATE, NOW) == 0
    for other in ((STATE[0] + 1, *STATE[1:]), (STATE[0], STATE[1] - 1, STATE[2]), (*STATE[:2], 8)):
        assert lately.slices(ADDRESS, ROW, other, NOW) == 0
        # Nor do checks under two states add up.
        mixed = VerifiedExtents()
        mixed.add(ADDRESS, ROW, STATE, 0b01, NOW)
        mixed.add(ADDRESS, ROW, other, 0b10, NOW)
        assert (mixed.slices(ADDRESS, ROW, STATE, NOW), mixed.slices(ADDRESS, ROW, other, NOW)) == (0, 0b10)


def test_a_check_stands_for_so_long_and_no_later_one_prolongs_it() -> None:
    lately = VerifiedExtents()
    lately.add(ADDRESS, ROW, STATE, 0b01, NOW)
    lately.add(ADDRESS, ROW, STATE, 0b10, NOW + VALID_SECONDS - 1)
    assert lately.slices(ADDRESS, ROW, STATE, NOW + VALID_SECONDS - 1) == 0b11
    assert lately.slices(ADDRESS, ROW, STATE, NOW + VALID_SECONDS) == 0
    lately.add(ADDRESS, ROW, STATE, 0b10, NOW + VALID_SECONDS)
    assert lately.slices(ADDRESS, ROW, STATE, NOW + VALID_SECONDS) == 0b10
    assert lately.slices(ADDRESS, ROW, STATE, NOW + VALID_SECONDS - 1) == 0  # the clock was set back


def test_of_a_file_that_was_changed_just_now_nothing_is_remembered() -> None:
    """Its timestamp would not tell the next change from this one."""
    lately = VerifiedExtents()
    for began in (CHANGED - 10, CHANGED, CHANGED + SETTLED_SECONDS / 2):
        lately.add(ADDRESS, ROW, STATE, 1, began)
        assert len(lately) == 0
    lately.add(ADDRESS, ROW, STATE, 1, CHANGED + SETTLED_SECONDS)
    assert len(lately) == 1


def test_it_is_bounded_and_the_oldest_check_leaves_first() -> None:
    lately = VerifiedExtents(most=3)
    for nth in range(10):
        lately.add(bytes([nth]) * 28, ROW, STATE, 1, NOW)
        assert len(lately) <= 3
    left = [nth for nth in range(10) if lately.slices(bytes([nth]) * 28, ROW, STATE, NOW)]
    assert left == [7, 8, 9]
