"""Records: what was written is read back, what was torn, damaged or foreign is not; damage is told from a torn end."""

import os

from hypothesis import given
from hypothesis import strategies as st

from forebay.storage.journal.journal_record import (
    ALIGNMENT,
    Document,
    LogDamage,
    LogRecord,
    TornEnd,
    encode_document,
    encode_record,
    read_records,
)

LOG = bytes(range(16))


def _record(number: int, document: Document, payload: bytes = b"", *, log: bytes = LOG, durable: int = 0) -> bytes:
    return b"".join(encode_record(log, number, durable, encode_document(document), payload))


def _log(*payloads: bytes) -> list[bytes]:
    """Records that were each durable before the next one was written."""
    records: list[bytes] = []
    for number, payload in enumerate(payloads):
        durable = sum(map(len, records))
        records.append(_record(number, {"n": number}, payload, durable=durable))
    return records


@given(
    st.lists(st.tuples(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), st.binary(max_size=300)), max_size=6)
)
def test_records_are_read_as_they_were_written(entries: list[tuple[dict[str, str], bytes]]) -> None:
    written = b"".join(_record(number, document, payload) for number, (document, payload) in enumerate(entries))
    assert len(written) % ALIGNMENT == 0
    found = list(read_records(LOG, written))
    assert [(each.number, each.document, each.payload) for each in found if isinstance(each, LogRecord)] == [
        (number, document, payload) for number, (document, payload) in enumerate(entries)
    ]


def test_a_torn_end_is_no_damage() -> None:
    first, last = _log(b"first", b"last" * 50)
    for length in range(len(last) - 16):  # behind that it is padding
        found = list(read_records(LOG, first + last[:length] + bytes(64)))
        assert [type(each) for each in found] == [LogRecord, TornEnd][: 1 + bool(length)]
        if length:
            assert found[1] == (len(first), len(first) + len(last[:length].rstrip(b"\0")))


def test_damage_below_what_was_durable_is_named() -> None:
    first, second, third = _log(b"a" * 100, b"b" * 100, b"c" * 100)
    for position in (0, 5, 45, len(second) // 2):
        damaged = bytearray(second)
        damaged[position] ^= 1
        found = list(read_records(LOG, first + bytes(damaged) + third))
        assert [each.number for each in found if isinstance(each, LogRecord)] == [0, 2]
        assert [each for each in found if isinstance(each, LogDamage)] == [
            LogDamage(len(first), len(first) + len(second))
        ]


def test_records_of_another_log_are_none() -> None:
    [record] = _log(b"payload")
    assert [type(each) for each in read_records(os.urandom(16), record)] == [TornEnd]


def test_a_record_within_a_payload_is_none() -> None:
    [inner] = _log(b"inner")
    forged = _record(7, {"n": 7}, b"forged", log=os.urandom(16))
    outer, last = _log(inner + forged, b"last")
    assert [each.number for each in read_records(LOG, outer + last) if isinstance(each, LogRecord)] == [0, 1]
    torn = bytearray(outer)
    torn[30] ^= 1  # its header is damaged, so that its payload is searched: only the log's own id would verify there
    found = [each.payload for each in read_records(LOG, bytes(torn) + last) if isinstance(each, LogRecord)]
    assert b"forged" not in found


def test_keys_that_are_no_unicode_are_kept() -> None:
    document = {"key": "a\udcff\0\n"}
    [found] = read_records(LOG, _record(0, document))
    assert isinstance(found, LogRecord)
    assert found.document == document
