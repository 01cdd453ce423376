"""The ghost list knows the latest rejected blocks."""

from forebay.storage.memory.ghost_list import GhostList
from harness.ssd_rig import block_id


def test_a_rejected_block_is_listed_until_it_is_popped() -> None:
    ghosts = GhostList()
    ghosts.add(block_id("a"), 3)
    assert not ghosts.pop(block_id("a", 1))
    assert ghosts.pop(block_id("a"))
    assert not ghosts.pop(block_id("a"))


def test_trimming_removes_the_oldest_entries() -> None:
    ghosts = GhostList()
    for number in range(10):
        ghosts.add(block_id("a", number), 5)
    assert len(ghosts) == 5
    ghosts.trim(3)
    assert len(ghosts) == 3
    assert [ghosts.pop(block_id("a", number)) for number in (6, 7, 8, 9)] == [False, True, True, True]
