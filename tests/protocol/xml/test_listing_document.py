"""Pages of listings, written: the fields of both versions."""

from dataclasses import replace

from forebay.protocol.listing_query import ListingQuery, StartPoint
from forebay.protocol.xml.entry_rows import EntryRows, EntryRun
from forebay.protocol.xml.listed_page import KeyEncoding, owner_mark
from forebay.protocol.xml.listing_document import PageEntries, PageForm, is_writable, listing_document
from forebay.protocol.xml.xml_tree import Element, read_tree

FORM = PageForm(KeyEncoding(), ["<Owner><ID>me</ID></Owner>"], None, 1000)
QUERY = ListingQuery(2, "bucket", "", "", StartPoint(), None)


def page(keys: list[str], facts: list[str], prefixes: list[str], *, is_truncated: bool) -> PageEntries:
    rows = EntryRows.written(keys, facts, KeyEncoding())
    return PageEntries([EntryRun(rows, 0, len(keys))] if keys else [], prefixes, is_truncated)


def written(query: ListingQuery, entries: PageEntries, form: PageForm = FORM) -> Element:
    return read_tree(listing_document(query, entries, form), max_size=1 << 20, max_elements=1000)


def test_owners_are_shown_only_if_requested() -> None:
    entries = page(["a"], [f"<Size>1</Size>{owner_mark(0)}<X>1</X>"], [], is_truncated=False)
    plain = written(QUERY, entries).all("Contents")[0]
    assert [each.name for each in plain.children] == ["Key", "Size", "X"]
    owned = written(replace(QUERY, has_owner=True), entries).all("Contents")[0]
    assert owned.text_at("Owner", "ID") == "me"


def test_a_truncated_page_says_where_it_goes_on() -> None:
    entries = page(["a", "c"], ["", ""], ["b/"], is_truncated=True)
    assert written(QUERY, entries).text_at("NextContinuationToken") == StartPoint("c").token()
    assert written(QUERY, entries).text_at("KeyCount") == "3"
    rolled = page(["a"], [""], ["d/"], is_truncated=True)
    assert written(QUERY, rolled).text_at("NextContinuationToken") == StartPoint("d/", "prefix").token()
    first = replace(QUERY, version=1, has_owner=True)
    assert written(first, rolled).find("NextMarker") is None
    assert written(replace(first, delimiter="/"), rolled).text_at("NextMarker") == "d/"
    assert written(first, rolled).find("KeyCount") is None


def test_names_are_escaped_or_encoded() -> None:
    entries = page(["a&b c"], [""], ["<d>/"], is_truncated=False)
    plain = written(replace(QUERY, prefix="<"), entries)
    assert plain.all("Contents")[0].text_at("Key") == "a&b c"
    assert plain.text_at("Prefix") == "<"
    encoded = written(replace(QUERY, is_encoded=True, start_after="é"), entries)
    assert encoded.all("Contents")[0].text_at("Key") == "a%26b%20c"
    assert encoded.all("CommonPrefixes")[0].text_at("Prefix") == "%3Cd%3E/"
    assert encoded.text_at("StartAfter") == "%C3%A9"


def test_a_page_that_xml_cannot_carry_is_not_written() -> None:
    entries = page(["a\x01"], [""], [], is_truncated=False)
    assert not is_writable(QUERY, entries)
    assert is_writable(replace(QUERY, is_encoded=True), entries)
    assert not is_writable(replace(QUERY, prefix="\x02"), page([], [], [], is_truncated=False))


def test_a_large_number_of_keys_is_repeated_as_the_origin_does() -> None:
    entries = page([], [], [], is_truncated=False)
    many = replace(QUERY, max_keys=5000)
    assert written(QUERY, entries).text_at("MaxKeys") == "1000"
    assert written(many, entries).text_at("MaxKeys") == "5000"
    assert written(many, entries, FORM._replace(echoed_max_keys="1000")).text_at("MaxKeys") == "1000"
