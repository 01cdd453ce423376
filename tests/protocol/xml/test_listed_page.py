"""Pages of origins, read: entries verbatim, keys decoded, anything odd refused."""

import pytest

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.listed_page import (
    MAX_OWNERS,
    EntryFacts,
    KeyEncoding,
    ListingForm,
    entry_facts,
    owner_mark,
    read_page,
)

FACTS = "<LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;ab&quot;</ETag><Size>7</Size>"
OWNER = "<Owner><ID>me</ID><DisplayName>me</DisplayName></Owner>"


def page(*entries: str, fields: str = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>") -> bytes:
    contents = "".join(f"<Contents>{each}</Contents>" for each in entries)
    root = f'<ListBucketResult xmlns="urn:x"><Name>b</Name>{fields}{contents}</ListBucketResult>'
    return f'<?xml version="1.0"?>\n{root}'.encode()


def entry(key: str, rest: str = FACTS) -> str:
    return f"<Key>{key}</Key>{rest}"


def test_entries_are_kept_as_they_are() -> None:
    rest = f"{FACTS}<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><RestoreStatus><IsX>true</IsX></RestoreStatus><Empty/>"
    form = ListingForm()
    read = read_page(page(entry("a%20b", rest), entry("c", f"{FACTS}{OWNER}<StorageClass>S</StorageClass>")), form)
    assert read.keys == ["a b", "c"]
    assert read.facts == [rest, f"{FACTS}{owner_mark(0)}<StorageClass>S</StorageClass>"]
    assert form.owners == [OWNER]
    assert not read.is_truncated
    assert entry_facts(read.facts[0]) == EntryFacts("2026-01-02T03:04:05.000Z", '"ab"', 7)


def test_keys_without_encoding_are_unescaped() -> None:
    read = read_page(
        page(entry("a&amp;b&#x20ac;"), entry("b%20"), fields="<IsTruncated>true</IsTruncated>"), ListingForm()
    )
    assert read.keys == ["a&b\u20ac", "b%20"]
    assert read.is_truncated


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"<ListBucketResult",
        page("<Size>1</Size><Key>a</Key>"),
        page(entry("a", "<Size>1</size>")),
        page(entry("a", "<Size>1<Deep><Deeper><Deepest>1</Deepest></Deeper></Deep></Size>")),
        page(entry("a", "<![CDATA[<Key>]]>")),
        page(entry("a", "<!-- <Key> -->")),
        page(entry("a\x01")),
        page(entry("a%00")),
        page(entry("a%ff")),
        page(entry("a%2fb")),
        page(entry("b"), entry("a")),
        page(entry("a"), entry("a")),
        page(entry("a"), fields=""),
        page(fields="<IsTruncated>true</IsTruncated>"),
        page(fields="<IsTruncated>false</IsTruncated><CommonPrefixes><Prefix>a</Prefix></CommonPrefixes>"),
        page(entry("a", f"{OWNER}{OWNER}")),
        b"<Error><Code>SlowDown</Code></Error>",
    ],
)
def test_what_is_not_plain_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedXml):
        read_page(body, ListingForm())


def test_too_many_owners_are_refused() -> None:
    entries = [entry(f"{number:03}", f"{FACTS}<Owner><ID>{number}</ID></Owner>") for number in range(MAX_OWNERS + 1)]
    with pytest.raises(MalformedXml):
        read_page(page(*entries), ListingForm())


@pytest.mark.parametrize(
    ("written", "encoding"),
    [
        (["a%20b", "c%2A", "d~"], KeyEncoding()),
        (["a+b", "c*", "d%7E"], KeyEncoding(plus=True, asterisk=True, tilde=False)),
        (["a+b", "c%2A", "d~"], KeyEncoding(plus=True)),
    ],
)
def test_the_encoding_of_an_origin_is_learnt(written: list[str], encoding: KeyEncoding) -> None:
    form = ListingForm()
    assert read_page(page(*map(entry, written)), form).keys == ["a b", "c*", "d~"]
    assert form.encoding == encoding
    assert [form.encoding.encode(key) for key in ("a b", "c*", "d~")] == written


def test_an_entry_that_lacks_a_fact_has_none() -> None:
    assert entry_facts("<Size>1</Size>") is None
