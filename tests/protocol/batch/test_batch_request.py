"""The JSON of a batch: strict, and every refusal names the entry."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import S3Error
from forebay.protocol.batch.batch_request import MAX_KEYS, BatchEntry, BatchRequest, batch_document, parse_batch

_KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)
_ENTRIES = st.builds(
    lambda key, start, length, member: BatchEntry(key, start, None if length is None else start + length, member),
    _KEYS,
    st.integers(0, 1 << 50),
    st.none() | st.integers(1, 1 << 50),
    st.none() | _KEYS,
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_FIELDS = st.sampled_from(["keys", "order", "continue_on_error", "key", "start", "end", "member", "x"])


def test_a_batch_is_parsed() -> None:
    body = b'{"keys": ["a", {"key": "b", "start": 1, "end": 9}, {"key": "c.tar", "member": "d"}], "order": "arrival"}'
    entries = (BatchEntry("a"), BatchEntry("b", 1, 9), BatchEntry("c.tar", member="d"))
    assert parse_batch(body) == BatchRequest(entries, as_they_come=True)
    assert parse_batch(b'{"keys": [], "continue_on_error": false}') == BatchRequest((), continue_on_error=False)
    assert entries[2].entry_name == "c.tar/d"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"", "JSON"),
        (b"\xff", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b"[]", "JSON object"),
        (b"{}", "keys must"),
        (b'{"keys": "a"}', "keys must"),
        (b'{"keys": [], "key": 1}', "the batch: 'key'"),
        (b'{"keys": [], "order": "random"}', "order"),
        (b'{"keys": [], "order": ["listed"]}', "order"),
        (b'{"keys": [], "continue_on_error": 1}', "continue_on_error"),
        (b'{"keys": ["a", ""]}', "keys[1] must"),
        (b'{"keys": ["a", 7]}', "keys[1] must"),
        (b'{"keys": ["a\\u0000"]}', "keys[0] has a NUL"),
        (b'{"keys": ["\\ud800"]}', "keys[0] is not Unicode"),
        (b'{"keys": [{}]}', "keys[0].key"),
        (b'{"keys": [{"key": "a", "kye": 1}]}', "keys[0]: 'kye'"),
        (b'{"keys": [{"key": "a", "start": -1}]}', "keys[0].start"),
        (b'{"keys": [{"key": "a", "start": true}]}', "keys[0].start"),
        (b'{"keys": [{"key": "a", "start": 1.0}]}', "keys[0].start"),
        (b'{"keys": [{"key": "a", "start": null}]}', "keys[0].start"),
        (b'{"keys": [{"key": "a", "end": 0}]}', "keys[0].end"),
        (b'{"keys": [{"key": "a", "start": 5, "end": 5}]}', "keys[0].end"),
        (b'{"keys": [{"key": "a", "end": 99999999999999999999}]}', "keys[0].end"),
        (b'{"keys": [{"key": "a", "member": ""}]}', "keys[0].member"),
        (json.dumps({"keys": ["\u00e9" * 513]}).encode(), "keys[0] may have at most 1024 bytes, and has 1026"),
        (json.dumps({"keys": ["a"] * (MAX_KEYS + 1)}).encode(), "keys may have at most 10000"),
    ],
)
def test_a_malformed_batch_is_refused_by_name(body: bytes, where: str) -> None:
    with pytest.raises(S3Error) as refused:
        parse_batch(body)
    assert refused.value.status == 400
    assert where in refused.value.message


@given(st.lists(_ENTRIES, max_size=20), st.booleans(), st.booleans())
def test_a_batch_survives_the_wire(entries: list[BatchEntry], arrival: bool, continues: bool) -> None:
    batch = BatchRequest(tuple(entries), arrival, continues)
    assert parse_batch(batch_document(batch)) == batch


def parsed(body: bytes) -> BatchRequest | S3Error:
    """What a body is parsed to, or how it is refused."""
    try:
        return parse_batch(body)
    except S3Error as refused:
        return refused


@given(
    st.binary(max_size=200) | st.dictionaries(_FIELDS, _JSON, max_size=4).map(lambda each: json.dumps(each).encode())
)
def test_anything_else_is_refused_or_parsed_and_never_raises(body: bytes) -> None:
    found = parsed(body)
    if isinstance(found, S3Error):
        assert found.status == 400
    else:
        assert parse_batch(batch_document(found)) == found


@given(st.lists(st.dictionaries(_FIELDS, _JSON, max_size=4) | _JSON, max_size=4))
def test_malformed_entries_are_refused_with_their_position(keys: list[object]) -> None:
    found = parsed(json.dumps({"keys": keys}).encode())
    if isinstance(found, S3Error):
        assert "keys[" in found.message
    else:
        assert len(found.entries) == len(keys)
