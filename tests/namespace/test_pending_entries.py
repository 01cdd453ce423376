"""Windows of pending entries: what a page needs of them, and no more, however many there are."""

from random import Random

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.namespace.pending_entries import LOOKED_AT, PendingEntries, common_prefix
from forebay.protocol.listing_query import LAST_CHARACTER
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion

HEAD = head_of(ObjectFacts(Version('"etag"'), 1, "", ()), 65536, 0.0)


async def _read_body(_ref: BodyRef, _span: Span) -> bytes:
    raise OSError


def entries_of(state: dict[str, Head | None]) -> PendingEntries:
    pending = PendingObjects(_read_body)  # type: ignore[arg-type] # nothing is read
    for number, (key, head) in enumerate(state.items()):
        pending.add(ObjectName("b", key), PendingVersion(RecordId("log", number), number, head))
        pending.add(ObjectName("a", key), PendingVersion(RecordId("other", number), number, head))
    return PendingEntries(pending)


def shown(state: dict[str, Head | None], prefix: str, delimiter: str) -> list[str]:
    """The names that a listing of the pending objects alone has."""
    keys = [key for key, head in state.items() if head is not None and key.startswith(prefix)]
    return sorted({common_prefix(key, prefix, delimiter) or key for key in keys})


@pytest.mark.parametrize("seed", range(30))
def test_windows_one_after_the_other_show_every_name(seed: int) -> None:
    chance = Random(seed)
    keys = {"".join(chance.choices(("a", "b", "/", LAST_CHARACTER), k=chance.randrange(1, 6))) for _ in range(60)}
    state = {key: chance.choice((HEAD, HEAD, None)) for key in keys}
    entries, limit = entries_of(state), chance.randrange(1, 6)
    prefix, delimiter = chance.choice(("", "a", "a/")), chance.choice(("", "/"))
    after: str | None = ""
    found: list[str] = []
    while after is not None:
        window = entries.window("b", prefix, delimiter, after, limit)
        assert all(key > after and state[key] is head for key, head in window.state.items())
        names = shown(window.state, prefix, delimiter)
        assert len(names) <= limit
        assert all(window.bound is None or name <= window.bound for name in names)
        found, after = found + names, window.bound
    assert found == shown(state, prefix, delimiter)
    assert entries.is_any("b", prefix) == any(key.startswith(prefix) for key in keys)


def test_a_window_is_no_larger_than_a_page() -> None:
    entries = entries_of({f"p/{number:05}/{number % 3}": HEAD for number in range(3_000)})
    window = entries.window("b", "p/", "", "p/01", 11)
    assert (len(window.state), window.bound) == (11, "p/01010/2")
    window = entries.window("b", "p/", "/", "", 11)
    assert (len(window.state), window.bound) == (11, f"p/00010/{LAST_CHARACTER}")
    assert len(entries.window("b", "", "/", "", 11).state) == 1, "one common prefix, whatever is in it"


def test_all_that_is_deleted_belongs_to_a_window() -> None:
    """The origin shows it still."""
    state = {"a": None, "b": HEAD, "c": None, "d": HEAD, "e": None, "f": HEAD}
    entries = entries_of(state)
    assert entries.window("b", "", "", "", 2).state == {key: state[key] for key in "abcd"}
    assert entries.window("b", "", "", "d", 2).state == {key: state[key] for key in "ef"}


@pytest.mark.parametrize("delimiter", ["", "/"])
def test_a_window_has_a_bounded_number_of_deletions(delimiter: str) -> None:
    entries = entries_of({f"d/{number:05}": None for number in range(2 * LOOKED_AT)} | {"e": HEAD})
    window = entries.window("b", "d/", delimiter, "", 11)
    assert (len(window.state), window.bound) == (LOOKED_AT, f"d/{LOOKED_AT - 1:05}")
    after = entries.window("b", "d/", delimiter, window.bound or "", 11)
    assert (len(after.state), after.bound) == (LOOKED_AT, None)
    window = entries.window("b", "", "/", "", 11)
    assert (len(window.state), window.bound) == (2 * LOOKED_AT, f"d/{2 * LOOKED_AT - 1:05}"), (
        "all of a prefix is needed"
    )
