"""Records of requests, and their ids."""

from forebay.core.request_record import RequestRecord, new_request_id


def test_request_ids_are_sixteen_hex_digits_and_do_not_repeat() -> None:
    ids = {new_request_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(each) == 16 and int(each, 16) >= 0 for each in ids)


def test_bytes_sent_are_counted_by_source() -> None:
    record = RequestRecord("GET", 0.0, "id")
    for source, size in (("memory", 3), ("ssd", 4), ("memory", 5)):
        record.count_sent(source, size)
    assert (record.sent, record.sent_from) == (12, {"memory": 8, "ssd": 4})
