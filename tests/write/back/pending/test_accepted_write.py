"""What a record says is what was accepted."""

import json

import pytest

from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.recovery_scan import PendingRecord
from forebay.write.back.pending.accepted_write import (
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    CompletedPart,
    JournalEntry,
    OriginCompletion,
    decode_record,
)

NAME = ObjectName("bucket", "key/é")
HEADERS = (("Content-Type", "a"), ("x-amz-meta-m", "1"), ("x-amz-meta-m", "2"))
BODY = BodyRef("f" * 32, 7, 9)
FACTS = ObjectFacts(Version('"e"'), 7, "Mon, 01 Jan 2024 00:00:00 GMT", HEADERS, checksums_known=True)
ENTRIES: list[JournalEntry] = [
    AcceptedWrite("put", NAME, WriteInterval(1 << 70, 2 << 70), HEADERS, FACTS, 65536, 1.5, "ab", (BODY,)),
    AcceptedWrite("delete", NAME, WriteInterval(3, 4), accepted_at=2.5, replaces=""),
    AcceptedWrite(
        "complete",
        NAME,
        WriteInterval(3, 4),
        HEADERS,
        FACTS,
        65536,
        1.5,
        upload_id="u",
        parts=(CompletedPart(2, '"p"', RecordId("l", 5)),),
    ),
    AcceptedUpload(NAME, "u", HEADERS, 1.5),
    AcceptedPart(NAME, "u", 3, '"p"', 7, HEADERS, None, (BODY,), 1.5, 1 << 63, 1 << 70),
    AbortedUpload(NAME, "u"),
    AbortedUpload(NAME, "u", OriginCompletion('"e-2"', (("x-amz-checksum-crc32", "sum"),), "digest")),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_an_entry_is_read_as_it_was_written(entry: JournalEntry) -> None:
    document = json.loads(json.dumps(entry.document()))
    assert decode_record(PendingRecord(RecordId("log", 0), document, b"")) == entry


@pytest.mark.parametrize("document", [{}, {"write": "put"}, {"write": "rename", "bucket": "b", "key": "k"}])
def test_a_record_of_something_else_is_named(document: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="the record 7 of the log l is no write"):
        decode_record(PendingRecord(RecordId("l", 7), document, b""))
