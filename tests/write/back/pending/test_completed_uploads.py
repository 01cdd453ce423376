"""Completed uploads: their parts are settled with the last of their completions."""

from forebay.core.names import ObjectName
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.pending.accepted_write import AcceptedWrite, CompletedPart
from forebay.write.back.pending.completed_uploads import CompletedUploads


def _id(number: int) -> RecordId:
    return RecordId("l", number)


def _completion(*parts: int) -> AcceptedWrite:
    listed = tuple(CompletedPart(part, '"e"', _id(part)) for part in parts)
    return AcceptedWrite("complete", ObjectName("b", "k"), WriteInterval(0, 1), upload_id="u", parts=listed)


def test_parts_are_settled_with_the_last_completion() -> None:
    uploads = CompletedUploads()
    uploads.add(_id(10), _completion(1), [_id(0), _id(1), _id(2)])
    uploads.add(_id(11), _completion(2, 3), [])
    assert ("u" in uploads, list(uploads), uploads.listed()) == (True, [_id(10), _id(11)], {_id(1), _id(2), _id(3)})
    assert [uploads.lists("u", _id(number)) for number in range(4)] == [False, True, True, True]
    assert not uploads.lists("other", _id(1))
    assert (uploads.settled_with(_id(10)), uploads.settled_with(_id(11))) == ([], [])
    uploads.forget(_id(10))
    assert uploads.settled_with(_id(10)) == []
    assert uploads.settled_with(_id(11)) == [_id(number) for number in range(4)], "3 came behind its completion"
    uploads.forget(_id(12))
    uploads.forget(_id(11))
    assert ("u" in uploads, list(uploads), uploads.lists("u", _id(1))) == (False, [], False)
