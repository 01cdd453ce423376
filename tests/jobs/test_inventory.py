"""The inventory: what was added comes back, in order, from compressed pages too."""

from forebay.jobs.inventory import PAGE_OBJECTS, Inventory


def test_entries_come_back_in_pages_and_in_order() -> None:
    inventory, count = Inventory(), 2 * PAGE_OBJECTS + 5
    for number in range(count):
        inventory.add(f"grün\n/{number}", number if number % 2 else None)
    pages = list(inventory.pages())
    assert [len(page) for page in pages] == [PAGE_OBJECTS, PAGE_OBJECTS, 5]
    entries = [entry for page in pages for entry in page]
    assert [entry.key for entry in entries] == [f"grün\n/{number}" for number in range(count)]
    assert [entry.size for entry in entries] == [number if number % 2 else None for number in range(count)]
    assert list(inventory.pages()) == pages
    assert len(inventory) == count


def test_an_empty_inventory_has_no_page() -> None:
    assert list(Inventory().pages()) == []
