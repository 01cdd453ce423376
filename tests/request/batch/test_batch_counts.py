"""The counts of a batch: by labels, reported once."""

from forebay.core.events import BatchEntriesAnswered, Event
from forebay.core.request_record import RequestRecord
from forebay.request.batch.batch_counts import BatchCounts


def reported(counts: BatchCounts) -> tuple[RequestRecord, list[Event]]:
    record, events = RequestRecord("POST", 0.0, "id", "peer"), list[Event]()
    counts.report(record, events.append)
    return record, events


def test_entries_with_the_same_labels_are_one_event() -> None:
    counts = BatchCounts()
    for size in (3, 4):
        counts.count_found("rule", "memory", 200, size)
    counts.count_found("rule", "memory", 206, 1)
    counts.count_found("rule", "ssd", 200, 5)
    _, events = reported(counts)
    assert events == [
        BatchEntriesAnswered("rule", "hit-memory", 200, 2, {"memory": 7}),
        BatchEntriesAnswered("rule", "hit-memory", 206, 1, {"memory": 1}),
        BatchEntriesAnswered("rule", "hit-ssd", 200, 1, {"ssd": 5}),
    ]


def test_only_what_was_found_joins_the_record() -> None:
    counts = BatchCounts()
    counts.count_found("rule", "memory", 200, 3)
    counts.count_found("rule", "ssd", 200, 5)
    counts.count("rule", "miss", 200, {"origin": 7})  # its own record was added to the batch's when its read ended
    counts.count("", None, 403, {})
    record, events = reported(counts)
    assert record.sent_from == {"memory": 3, "ssd": 5}
    assert events[-2:] == [
        BatchEntriesAnswered("rule", "miss", 200, 1, {"origin": 7}),
        BatchEntriesAnswered("", None, 403, 1, {}),
    ]
