"""Rows of entries: every form that a page may want is what the entries say, written plainly."""

from xml.sax.saxutils import escape

import pytest

from forebay.protocol.xml.entry_rows import NO_OWNER, EntryRows
from forebay.protocol.xml.listed_page import KeyEncoding, owner_mark

OWNERS = ("<Owner><ID>me</ID></Owner>", "<Owner><ID>you</ID></Owner>")
PLAIN = ("a", "b/1.jpg", "c")
STRANGE = ("a b", "c&d", "e<f>", "gé")
NOBODY, ALL_MINE, SOME_MINE, MIXED = (None,) * 4, (0,) * 4, (0, None, 0, 0), (1, 0, None, 1)


def plainly(
    keys: tuple[str, ...], owned_by: tuple[int | None, ...], owners: tuple[str, ...] | None, *, is_encoded: bool
) -> str:
    rows = ""
    for key, owner in zip(keys, owned_by, strict=False):
        name = KeyEncoding().encode(key) if is_encoded else escape(key)
        shown = owners[owner] if owners is not None and owner is not None else ""
        rows += f"<Contents><Key>{name}</Key><Size>{len(key)}</Size><X>é</X>{shown}</Contents>"
    return rows


def rows_of(keys: tuple[str, ...], owned_by: tuple[int | None, ...]) -> EntryRows:
    facts = [
        f"<Size>{len(key)}</Size>{'' if owner is None else owner_mark(owner)}<X>é</X>"
        for key, owner in zip(keys, owned_by, strict=False)
    ]
    return EntryRows.written(keys, facts, KeyEncoding())


@pytest.mark.parametrize("keys", [PLAIN, STRANGE])
@pytest.mark.parametrize("owned_by", [NOBODY, ALL_MINE, SOME_MINE, MIXED])
@pytest.mark.parametrize("owners", [OWNERS, None])
@pytest.mark.parametrize("is_encoded", [True, False])
def test_each_form_is_what_the_entries_say(
    keys: tuple[str, ...], owned_by: tuple[int | None, ...], owners: tuple[str, ...] | None, *, is_encoded: bool
) -> None:
    rows = rows_of(keys, owned_by)
    for first in range(len(keys)):
        for stop in range(first, len(keys) + 1):
            wanted = plainly(keys[first:stop], owned_by[first:stop], owners, is_encoded=is_encoded)
            assert str(rows.contents(first, stop, owners, is_encoded=is_encoded), "utf-8") == wanted


def test_the_facts_of_an_entry_have_no_owner() -> None:
    assert rows_of(STRANGE, MIXED).facts(2) == "<Size>4</Size><X>é</X>"
    assert rows_of(STRANGE, MIXED).owners == bytes((1, 0, NO_OWNER, 1))


@pytest.mark.parametrize(("keys", "is_plain"), [(PLAIN, True), (STRANGE, False)])
def test_keys_are_plain_if_no_origin_writes_them_otherwise(keys: tuple[str, ...], *, is_plain: bool) -> None:
    assert rows_of(keys, ALL_MINE).is_plain is is_plain


def test_rows_that_do_not_fit_their_table_are_refused() -> None:
    good = rows_of(PLAIN, NOBODY)
    short = good.bounds[:-1]
    for bounds, owners in ((short, good.owners), (good.bounds, good.owners[:1]), ([*short, 1], good.owners)):
        with pytest.raises(ValueError, match="fit"):
            EntryRows(PLAIN, good.content, bounds, owners, is_plain=True)


def test_a_key_is_found_where_it_is() -> None:
    rows = rows_of(PLAIN, NOBODY)
    assert [rows.find(key) for key in ("a", "b", "b/1.jpg", "d")] == [0, None, 1, None]
