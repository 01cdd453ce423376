"""The halves of numbers of 64 bits."""

from array import array

from forebay.core.number_halves import high_halves, low_halves

NUMBERS = array("Q", [0, 1, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, 0x0123_4567_89AB_CDEF])


def test_each_number_is_its_halves_put_together() -> None:
    halves = zip(high_halves(NUMBERS), low_halves(NUMBERS), strict=True)
    assert [high << 32 | low for high, low in halves] == NUMBERS.tolist()


def test_halves_are_columns_of_their_own() -> None:
    numbers = NUMBERS[:]
    low, high = low_halves(numbers), high_halves(numbers)
    numbers.append(0)
    assert low[-1] == 0x89AB_CDEF
    assert high[-1] == 0x0123_4567


def test_no_numbers_have_no_halves() -> None:
    assert low_halves(array("Q")).tolist() == high_halves(array("Q")).tolist() == []
