"""Pending uploads: a part replaces the one of its number, and an upload is its object's."""

from dataclasses import replace

import pytest

from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.pending.accepted_write import (
    JOINED,
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    OriginCompletion,
)
from forebay.write.back.pending.pending_uploads import (
    COMPLETED,
    PendingPart,
    PendingUploads,
    is_local,
    new_upload_id,
)
from forebay.write.repeated_completion import completion_digest

NAME = ObjectName("b", "k")


def _part(upload_id: str, number: int, record: int) -> PendingPart:
    part = AcceptedPart(NAME, upload_id, number, f'"{record}"', 1, (), None, (), 0.0, 0, 0)
    return PendingPart(RecordId("l", record), part, ())


def test_the_last_part_of_a_number_counts() -> None:
    uploads, upload_id = PendingUploads(), new_upload_id(1)
    uploads.create(RecordId("l", 0), AcceptedUpload(NAME, upload_id, (), 0.0))
    first, second = _part(upload_id, 1, 1), _part(upload_id, 1, 2)
    uploads.add(first)
    uploads.add(second)
    found = uploads.find(NAME, upload_id)
    assert found is not None
    assert found.parts == {1: second}
    assert uploads.find(ObjectName("b", "other"), upload_id) is None
    assert (found.replaced, found.size) == ([first], 2)
    ended = uploads.end(upload_id)
    assert ended is not None
    assert ended.records == [RecordId("l", 0), second.record, first.record]
    uploads.settle(first.record)
    assert uploads.parts == {second.record: second}
    assert uploads.find(NAME, upload_id) is None
    uploads.add(_part(upload_id, 2, 3))
    assert uploads.by_id == {}


def test_a_joined_part_is_none_of_its_upload_s_own() -> None:
    uploads, upload_id = PendingUploads(), new_upload_id(1)
    uploads.create(RecordId("l", 0), AcceptedUpload(NAME, upload_id, (), 0.0))
    first, joined = _part(upload_id, 1, 1), _part(upload_id, JOINED + 1, 2)
    uploads.add(first)
    uploads.add(joined)
    found = uploads.by_id[upload_id]
    assert (found.parts, found.replaced, joined.part.origin_number) == ({1: first}, [joined], 1)
    assert uploads.parts == {first.record: first, joined.record: joined}


def _completion(upload_id: str) -> AcceptedWrite:
    facts = ObjectFacts(Version('"e-1"'), 1, "Mon, 01 Jan 2024 00:00:00 GMT", ())
    return AcceptedWrite("complete", NAME, WriteInterval(0, 1), facts=facts, upload_id=upload_id)


@pytest.mark.parametrize("is_at_origin", [False, True])
def test_a_completion_is_known_unless_it_is_given_up(*, is_at_origin: bool) -> None:
    uploads, write = PendingUploads(), _completion("u")
    uploads.complete(write, RecordId("l", 1), b"document")
    uploads.complete(write, RecordId("l", 2), b"another")
    found = uploads.completion("u", completion_digest(b"document"))
    assert found is not None
    assert (found.name, found.etag, found.record, found.is_at_origin) == (NAME, '"e-1"', RecordId("l", 1), False)
    uploads.settle_completion(write, RecordId("l", 2), is_at_origin=False)
    assert (
        uploads.completion("u", completion_digest(b"document")),
        uploads.completion("u", completion_digest(b"another")),
    ) == (
        found,
        None,
    )
    uploads.settle_completion(write, RecordId("l", 1), is_at_origin=is_at_origin)
    expected = found._replace(is_at_origin=True) if is_at_origin else None
    assert (uploads.completion("u", completion_digest(b"document")), uploads.is_completed("u")) == (
        expected,
        is_at_origin,
    )


def test_a_completion_at_the_origin_is_known_by_its_conditions() -> None:
    uploads, conditions = PendingUploads(), (("If-None-Match", "*"), ("x-forebay-durability", "origin"))
    request = completion_digest(b"document", conditions)
    made = OriginCompletion('"e-1"', (("x-amz-checksum-crc32", "sum"),), request)
    uploads.end_at_origin(AbortedUpload(NAME, "u", made), RecordId("l", 1))
    uploads.end_at_origin(AbortedUpload(NAME, "aborted"), RecordId("l", 2))
    found = uploads.completion(
        "u", completion_digest(b"document", tuple((a.lower(), b) for a, b in reversed(conditions)))
    )
    assert found is not None
    assert (found.name, *found[1:3], found.is_at_origin) == (NAME, made.etag, made.sums, True)
    others = [
        completion_digest(b"document"),
        completion_digest(b"document", conditions[:1]),
        completion_digest(b"another", conditions),
    ]
    assert [uploads.completion("u", each) for each in others] == [None, None, None]
    assert not uploads.is_completed("aborted")


def test_a_completion_outlives_its_repetition() -> None:
    """Each worker hears of both in its own order, and the drainer settles one."""
    uploads, write = PendingUploads(), _completion("u")
    for number in (2, 1):
        uploads.complete(write, RecordId("l", number), b"document")
    uploads.settle_completion(write, RecordId("l", 2), is_at_origin=False)
    found = uploads.completion("u", completion_digest(b"document"))
    assert found is not None
    assert found.record == RecordId("l", 1)


def test_of_two_parts_the_later_written_counts() -> None:
    """Whichever of them a worker hears of first."""
    uploads, upload_id = PendingUploads(), new_upload_id(1)
    uploads.create(RecordId("l", 0), AcceptedUpload(NAME, upload_id, (), 0.0))
    parts = [_part(upload_id, 1, number) for number in (1, 2, 3)]
    stamped = [
        replace(each, part=replace(each.part, stamp=stamp)) for each, stamp in zip(parts, (5, 7, 6), strict=True)
    ]
    for each in stamped:
        uploads.add(each)
    found = uploads.by_id[upload_id]
    assert (found.parts, found.replaced) == ({1: stamped[1]}, [stamped[0], stamped[2]])


def test_the_latest_completions_are_known() -> None:
    uploads = PendingUploads()
    for number in range(COMPLETED + 1):
        uploads.complete(_completion(f"u{number}"), RecordId("l", number), b"")
    known = [
        number
        for number in range(COMPLETED + 1)
        if uploads.completion(f"u{number}", completion_digest(b"")) is not None
    ]
    assert known == list(range(1, COMPLETED + 1))


def test_ids_show_whose_upload_it_is() -> None:
    assert is_local(new_upload_id(1 << 64))
    assert new_upload_id(1) != new_upload_id(1)


def test_upload_ids_are_in_the_order_of_creation() -> None:
    stamps = [1, 255, 256, 1 << 64, (1 << 64) + 1, 17 << 64]
    ids = {new_upload_id(stamp): stamp for stamp in reversed(stamps)}
    assert [ids[each] for each in sorted(ids)] == stamps
