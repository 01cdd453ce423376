"""Counters by access key, in both lanes, and latencies of hits."""

from forebay.core.request_record import RequestRecord
from forebay.server.telemetry.metrics import Metrics


def test_traffic_is_counted_by_access_key_in_both_lanes() -> None:
    metrics = Metrics()
    metrics.hit_counts("GetObject", 200, "default", "hit-memory", "job-a").add(100, 0.00008)
    metrics.hit_counts("GetObject", 200, "default", "hit-memory", "job-b").add(7, 0.00008)
    record = RequestRecord("PUT", 0.0, "0", principal="job-a", operation="PutObject", status=200, received=30)
    record.count_sent("origin", 5)
    metrics.record_request(record)
    assert dict(metrics.counters["forebay_key_requests_total"]) == {("job-a",): 2, ("job-b",): 1}
    assert dict(metrics.counters["forebay_key_sent_bytes_total"]) == {("job-a",): 105, ("job-b",): 7}
    assert dict(metrics.counters["forebay_key_received_bytes_total"]) == {("job-a",): 30}


def test_latencies_of_hits_are_told_apart_below_half_a_millisecond() -> None:
    metrics = Metrics()
    hits = metrics.hit_counts("GetObject", 200, "default", "hit-memory", "job")
    for seconds in (0.00004, 0.00008, 0.0002, 0.0004):
        hits.add(1, seconds)
    assert metrics.histograms["forebay_first_byte_seconds"]["hit-memory",].buckets[:5] == [1, 1, 1, 1, 0]
