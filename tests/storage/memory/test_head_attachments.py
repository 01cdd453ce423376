"""Attachments are dropped with their very head, and their bytes are counted."""

from dataclasses import dataclass

from forebay.storage.memory.head_attachments import MAX_ATTACHMENTS, HeadAttachments
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD, MemoryTier
from harness.ssd_rig import MIB, block_id, head_for

ROOMY = 64 * MIB
COST = 2100


@dataclass(frozen=True)
class Note:
    """An attachment with a text to tell it by."""

    text: str
    cost: int = COST


def tier_with_notes(capacity: int = ROOMY) -> tuple[MemoryTier, HeadAttachments[Note]]:
    tier = MemoryTier(capacity)
    return tier, HeadAttachments[Note](tier)


def test_attachments_are_dropped_with_their_very_head() -> None:
    name, head = head_for("a")
    for drop in (
        lambda tier: tier.put_head(name, head.with_validation(99.0)),
        lambda tier: tier.forget(name),
        lambda tier: tier.purge("bucket", ""),
        lambda tier: [tier.resize(0), tier.evict_some()],
    ):
        tier, notes = tier_with_notes()
        tier.put_head(name, head)
        tier.admit(block_id("a"), memoryview(bytes(100)))
        bare = tier.occupancy().used
        notes.attach(name, head, b"one", Note("first"))
        notes.attach(name, head, b"one", Note("second"))
        notes.attach(name, head.with_validation(98.0), b"two", Note("of another head"))
        assert notes.by_key == {b"one": Note("second")}
        assert tier.occupancy().used > bare + COST
        drop(tier)
        assert notes.by_key == {}
        tier.forget(name)
        assert tier.occupancy().used == 0


def test_a_key_may_name_another_object_after_a_reload() -> None:
    """A host that names another bucket from now on: the request, and its key, stay the same."""
    tier, notes = tier_with_notes()
    (old, old_head), (new, new_head) = head_for("old"), head_for("new")
    tier.put_head(old, old_head)
    notes.attach(old, old_head, b"request", Note("of the old"))
    tier.put_head(new, new_head)
    notes.attach(new, new_head, b"request", Note("of the new"))
    assert notes.by_key == {b"request": Note("of the new")}
    tier.forget(new)
    tier.forget(old)
    assert notes.by_key == {}
    assert tier.occupancy().used == 0


def test_the_length_of_a_key_counts_too() -> None:
    """A key contains a signed URL's query, with a token of kilobytes."""
    tier, notes = tier_with_notes()
    name, head = head_for("a")
    tier.put_head(name, head)
    bare = tier.occupancy().used
    notes.attach(name, head, b"request", Note("first"))
    short = tier.occupancy().used - bare
    notes.attach(name, head, b"k" * 5000, Note("first"))
    assert tier.occupancy().used - bare >= 2 * short + 4990
    tier.forget(name)
    assert tier.occupancy().used == 0


def test_a_head_has_a_bounded_number_of_attachments() -> None:
    tier, notes = tier_with_notes()
    name, head = head_for("a")
    tier.put_head(name, head)
    for number in range(100):
        notes.attach(name, head, b"%d" % number, Note(str(number)))
        assert notes.by_key[b"%d" % number] == Note(str(number))
        assert len(notes.by_key) <= MAX_ATTACHMENTS


def test_attachments_count_against_the_capacity() -> None:
    tier, notes = tier_with_notes(20 * COST)
    name, head = head_for("a")
    tier.put_head(name, head)
    for other in "bcd":
        tier.admit(block_id(other), memoryview(bytes(6 * COST - 2 * BLOCK_OVERHEAD)))
    tier.heads.mark_used(name)
    for number in range(4):
        notes.attach(name, head, b"%d" % number, Note(str(number)))
    assert tier.occupancy().used <= 20 * COST
    assert [tier.has(block_id(other)) for other in "bcd"] == [False, True, True]
    assert len(notes.by_key) == 4
