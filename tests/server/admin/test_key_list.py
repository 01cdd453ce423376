"""Lists as users have them: what each format gives, and the line of what is not understood."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.server.admin.key_list import (
    MAX_LINE,
    KeyListEntry,
    KeyListReader,
    ListFormat,
    MalformedKeyList,
    check_columns,
    check_format,
)


def read(
    text: str | bytes, list_format: ListFormat = "keys", bucket: str = "b", columns: tuple[str, ...] = (), step: int = 7
) -> list[KeyListEntry]:
    raw = text.encode() if isinstance(text, str) else text
    reader = KeyListReader(list_format, bucket, columns)
    found = [entry for start in range(0, len(raw), step) for entry in reader.feed(raw[start : start + step])]
    return found + reader.close()


def test_a_key_is_its_whole_line() -> None:
    assert read("a b\r\n\n ü \n\ttab\nlast\u2028one") == [
        KeyListEntry("b", key) for key in ("a b", " ü ", "\ttab", "last\u2028one")
    ]


def test_a_line_may_be_a_location_and_have_a_range() -> None:
    assert read("s3://c/x/y\noss://d/z\t10-19\nk\t5-\nk\t5-x\n") == [
        KeyListEntry("c", "x/y"),
        KeyListEntry("d", "z", None, 10, 20),
        KeyListEntry("b", "k", None, 5, None),
        KeyListEntry("b", "k\t5-x"),
    ]


def test_lines_of_json() -> None:
    text = """{"Key": "a", "Size": 5, "LastModified": "2026-01-01", "ETag": null}
"s3://c/k"

{"url": "s3://c/s%20x", "range": "bytes=0-9", "nsamples": 7, "bucket": null}
"""
    assert read(text, "jsonl") == [
        KeyListEntry("b", "a", 5),
        KeyListEntry("c", "k"),
        KeyListEntry("c", "s%20x", None, 0, 10),
    ]


def test_csv_has_a_header() -> None:
    text = '\ufeffid,Size,KEY,bucket\n1,5,a,\n2,,"b, ""c""\nd",x\n'
    assert read(text, "csv") == [KeyListEntry("b", "a", 5), KeyListEntry("x", 'b, "c"\nd')]
    assert read("url\ns3://c/k\n", "csv", "") == [KeyListEntry("c", "k")]


def test_an_inventory_has_as_many_fields_as_named_columns() -> None:
    rows = "x,k,10\nx,k\n"
    with pytest.raises(MalformedKeyList, match="Line 2: its fields are 2, and the columns named are 3"):
        read(rows, "s3-inventory", "", ("bucket", "key", "size"))
    with pytest.raises(MalformedKeyList, match="Line 1: its fields are 3, and the columns named are 1"):
        read(rows, "s3-inventory", "b", ("key",))


def test_an_inventory_has_encoded_keys_and_no_header() -> None:
    assert read('"x","a%2Fb+c%2B","12"\n', "s3-inventory", "") == [KeyListEntry("x", "a/b c+")]
    columns = check_columns("Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size", "columns")
    rows = "x,old,1,false,false,9\nx,k,2,true,false,10\nx,gone,3,true,true,\n"
    assert read(rows, "s3-inventory", "", columns) == [KeyListEntry("x", "k", 10)]


@pytest.mark.parametrize(
    ("list_format", "text", "line"),
    [
        ("keys", b"a\n\xff\n", 2),
        ("keys", "s3://\n", 1),
        ("keys", "a\nb\ns3://bucket\n", 3),
        ("keys", "k\t9-5\n", 1),
        ("keys", "ü" * 513, 1),
        ("jsonl", '"a"\nb\n', 2),
        ("jsonl", "[]\n", 1),
        ("jsonl", '{"bucket": "x"}\n', 1),
        ("jsonl", '{"key": ["x"]}\n', 1),
        ("jsonl", '{"key": "k", "size": -1}\n', 1),
        ("jsonl", '{"key": "\\ud800"}\n', 1),
        ("jsonl", "[" * 50_000, 1),
        ("csv", "a,b\n", 1),
        ("csv", 'key\na\n"b\nc\nd', 3),
        ("csv", "key,range\na,0-9\nb,bytes 0-9\n", 3),
        ("csv", "url\nk\n", 2),
        ("s3-inventory", "x\n", 1),
        ("s3-inventory", "x,%ff\n", 1),
    ],
)
def test_a_bad_line_has_its_number(list_format: ListFormat, text: str | bytes, line: int) -> None:
    with pytest.raises(MalformedKeyList) as bad:
        read(text, list_format, step=4096)
    assert bad.value.line == line
    assert bad.value.reason.endswith(".")


def test_a_key_needs_a_bucket() -> None:
    with pytest.raises(MalformedKeyList, match="Line 2: its key has no bucket"):
        read("s3://b/a\nb\n", bucket="")


def test_a_line_is_bounded() -> None:
    with pytest.raises(MalformedKeyList, match="longer than"):
        read("x" * (MAX_LINE + 2), step=4096)
    with pytest.raises(MalformedKeyList, match="not closed"):
        read('key\n"' + "x\n" * MAX_LINE, "csv", step=4096)


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r\t", codec="utf-8"), min_size=1, max_size=20)),
    st.integers(1, 30),
)
def test_pieces_of_any_length_read_the_same(keys: list[str], step: int) -> None:
    expected = [KeyListEntry("b", key) for key in keys if not key.startswith(("s3://", "oss://", "\ufeff"))]
    text = "".join(f"{json.dumps(each.key)}\n" for each in expected)
    assert read(text, "jsonl", step=step) == expected


@given(st.binary(max_size=200), st.sampled_from(("keys", "jsonl", "csv", "s3-inventory")))
def test_any_bytes_are_read_or_refused(raw: bytes, list_format: ListFormat) -> None:
    lines = [0]
    try:
        found = read(raw, list_format)
    except MalformedKeyList as bad:
        lines = [bad.line]
    else:
        assert all(entry.key and entry.bucket for entry in found)
    assert 0 <= lines[0] <= raw.count(b"\n") + 1


def test_names_of_formats_and_columns() -> None:
    assert check_format("csv", "format") == "csv"
    with pytest.raises(ValueError):
        check_format("xml", "format")
    with pytest.raises(ValueError):
        check_columns("Bucket, Size", "columns")
