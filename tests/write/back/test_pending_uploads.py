"""Pending uploads: a part replaces the one of its number, and an upload is its object's."""

from forebay.core.names import ObjectName
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.accepted_write import JOINED, AcceptedPart, AcceptedUpload
from forebay.write.back.pending_uploads import PendingPart, PendingUploads, is_local, new_upload_id

NAME = ObjectName("b", "k")


def _part(upload_id: str, number: int, record: int) -> PendingPart:
    part = AcceptedPart(NAME, upload_id, number, f'"{record}"', 1, (), None, (), 0.0)
    return PendingPart(RecordId("l", record), part, ())


def test_the_last_part_of_a_number_counts() -> None:
    uploads, upload_id = PendingUploads(), new_upload_id()
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
    uploads, upload_id = PendingUploads(), new_upload_id()
    uploads.create(RecordId("l", 0), AcceptedUpload(NAME, upload_id, (), 0.0))
    first, joined = _part(upload_id, 1, 1), _part(upload_id, JOINED + 1, 2)
    uploads.add(first)
    uploads.add(joined)
    found = uploads.by_id[upload_id]
    assert (found.parts, found.replaced, joined.part.origin_number) == ({1: first}, [joined], 1)
    assert uploads.parts == {first.record: first, joined.record: joined}


def test_ids_show_whose_upload_it_is() -> None:
    assert is_local(new_upload_id())
    assert new_upload_id() != new_upload_id()
    for foreign in ("", "forebay-", "2~abc", "forebay-" + "0" * 31):
        assert not is_local(foreign)
