"""Lists that wait for their jobs: used once, and bounded."""

import pytest

from forebay.core.errors import OrderRefused
from forebay.jobs.state.inventory import InventoryEntry
from forebay.jobs.warm_up.key_lists import MAX_WAITING, KeyLists


def test_a_list_grows_and_is_used_once() -> None:
    lists = KeyLists()
    created = lists.extend("", [InventoryEntry("b", "1")])
    assert created is not None
    assert lists.extend(created[0], [InventoryEntry("b", "2"), InventoryEntry("b", "3")]) == (created[0], 3)
    [inventory] = lists.pop([created[0], created[0]])
    assert [entry.key for page in inventory.pages() for entry in page] == ["1", "2", "3"]
    with pytest.raises(OrderRefused, match=created[0]):
        lists.pop([created[0]])
    assert lists.extend(created[0], []) is None


def test_the_oldest_list_is_dropped() -> None:
    lists = KeyLists()
    created = [lists.extend("", [InventoryEntry("b", "1")]) for _ in range(MAX_WAITING + 1)]
    ids = [each[0] for each in created if each is not None]
    assert lists.extend(ids[0], []) is None
    assert lists.extend(ids[1], []) == (ids[1], 1)
