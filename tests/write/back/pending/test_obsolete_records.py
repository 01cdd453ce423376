"""Obsolete records: what a drainer was to settle is settled by the next one, but for what is needed since."""

from collections.abc import Sequence

from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.pending.obsolete_records import ObsoleteRecords


def _id(number: int) -> RecordId:
    return RecordId("l", number)


def test_what_was_left_is_settled_by_the_next_drainer() -> None:
    settled: list[Sequence[RecordId]] = []
    is_draining = False

    def settle_soon(records: Sequence[RecordId]) -> bool:
        settled.append(list(records))
        return is_draining

    obsolete = ObsoleteRecords(settle_soon)
    for records in ([], [_id(1), _id(2)], [_id(3), _id(4)], [_id(5)]):
        assert not obsolete.settle(records)
    obsolete.forget(_id(4))
    settled.clear()
    is_draining = True
    obsolete.settle_left({_id(1)})
    assert settled == [[_id(2)], [_id(5)]]
    assert obsolete.settle([_id(6)])
    obsolete.settle_left(())
    assert settled == [[_id(2)], [_id(5)], [_id(6)]]
