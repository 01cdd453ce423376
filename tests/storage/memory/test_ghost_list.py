"""The ghost list knows the latest rejected blocks."""

from forebay.storage.memory.ghost_list import GhostList
from harness.ssd_rig import block_id


def test_a_rejected_block_is_listed_until_it_is_discarded() -> None:
    ghosts = GhostList()
    ghosts.add(block_id("a"))
    assert block_id("a") in ghosts
    assert block_id("a", 1) not in ghosts
    ghosts.discard(block_id("a"))
    ghosts.discard(block_id("a"))
    assert block_id("a") not in ghosts


def test_trimming_removes_the_oldest_entries() -> None:
    ghosts = GhostList()
    for number in range(10):
        ghosts.add(block_id("a", number))
    ghosts.trim(3)
    assert len(ghosts) == 3
    assert [block_id("a", number) in ghosts for number in (6, 7, 8, 9)] == [False, True, True, True]
