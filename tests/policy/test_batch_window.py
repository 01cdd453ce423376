"""How many entries of a batch are on their way at once."""

import pytest

from forebay.policy.batch_window import FIRST_ENTRIES, MAX_BYTES, MAX_ENTRIES, BatchWindow


@pytest.mark.parametrize(
    ("size", "entries"), [(0, MAX_ENTRIES), (10_240, MAX_ENTRIES), (4 << 20, MAX_BYTES >> 22), (MAX_BYTES * 9, 1)]
)
def test_the_window_goes_by_the_sizes_seen(size: int, entries: int) -> None:
    window = BatchWindow()
    assert window.entries == FIRST_ENTRIES
    for _ in range(3):
        window.learn(size)
    assert window.entries == entries


def test_the_mean_decides() -> None:
    window = BatchWindow()
    window.learn(0)
    window.learn(8 << 20)
    assert window.entries == MAX_BYTES // (4 << 20)
