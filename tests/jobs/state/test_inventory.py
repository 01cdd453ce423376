"""The inventory: what was added comes back, in order, from compressed pages too."""

from forebay.jobs.state.inventory import PAGE_OBJECTS, Inventory, InventoryEntry


def test_entries_come_back_in_pages_and_in_order() -> None:
    inventory, count = Inventory(), 2 * PAGE_OBJECTS + 5
    for number in range(count):
        inventory.add(InventoryEntry("b", f"grün\n/{number}", number if number % 2 else None))
    pages = list(inventory.pages())
    assert [len(page) for page in pages] == [PAGE_OBJECTS, PAGE_OBJECTS, 5]
    entries = [entry for page in pages for entry in page]
    assert [entry.key for entry in entries] == [f"grün\n/{number}" for number in range(count)]
    assert [entry.size for entry in entries] == [number if number % 2 else None for number in range(count)]
    assert list(inventory.pages()) == pages
    assert len(inventory) == count


def test_an_empty_inventory_has_no_page() -> None:
    assert list(Inventory().pages()) == []


def test_pages_begin_anywhere() -> None:
    inventory = Inventory()
    for number in range(2 * PAGE_OBJECTS + 5):
        inventory.add(InventoryEntry("b", str(number)))
    for start in (0, 1, PAGE_OBJECTS, 2 * PAGE_OBJECTS + 4, 2 * PAGE_OBJECTS + 5):
        entries = [entry.key for page in inventory.pages(start) for entry in page]
        assert entries == [str(number) for number in range(start, 2 * PAGE_OBJECTS + 5)]


def test_the_wanted_bytes_of_a_range_lie_in_the_object() -> None:
    assert InventoryEntry("b", "k", 100).wanted == 100
    assert InventoryEntry("b", "k", 100, 90, 200).wanted == 10
    assert InventoryEntry("b", "k", 100, 200).wanted == 0
    assert InventoryEntry("b", "k", None, 0, 10).wanted is None


def test_a_truncated_inventory_has_the_first_entries() -> None:
    inventory = Inventory()
    for number in range(PAGE_OBJECTS + 5):
        inventory.add(InventoryEntry(f"b{number % 2}", str(number), 1))
    for length in (PAGE_OBJECTS + 5, PAGE_OBJECTS + 1, 1, 0):
        inventory.truncate(length)
        assert (len(inventory), inventory.known_bytes) == (length, length)
    assert inventory.buckets == set()


def test_joined_inventories_come_one_after_the_other() -> None:
    parts = [Inventory(), Inventory()]
    for number, part in enumerate(parts):
        part.add(InventoryEntry("b", str(number)))
    assert [entry.key for page in Inventory.joined(parts).pages() for entry in page] == ["0", "1"]
    assert Inventory.joined(parts[:1]) is parts[0]
