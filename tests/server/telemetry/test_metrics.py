"""Counters by access key, in both lanes, and latencies of hits."""

from forebay.core.request_record import CacheStatus, RequestRecord
from forebay.server.telemetry.metrics import Metrics
from forebay.storage.tier_contract import BlockCounts


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


def read_record(cache: CacheStatus, **sent: int) -> RequestRecord:
    """A read of 0.2 s, whose first byte came after 0.1 s."""
    record = RequestRecord(
        "GET", 1.0, "0", principal="job", operation="GetObject", rule="data", cache=cache, status=200
    )
    for source, size in sent.items():
        record.count_sent(source, size)
    record.first_byte, record.ended = 1.1, 1.2
    return record


def test_reads_from_one_source_are_counted_as_any_request() -> None:
    together, apart = Metrics(), Metrics()
    for _ in range(2):
        together.record_request(read_record("miss", flight=20, memory=0))
        apart.record_request(read_record("miss", flight=20))
        apart.record_request(read_record("hit-ssd", ssd=7))
        together.record_request(read_record("hit-ssd", ssd=7, memory=0))
    for name, counts in together.counters.items():
        assert {labels: number for labels, number in counts.items() if number} == {
            labels: number for labels, number in apart.counters[name].items() if number
        }
    for name, histograms in together.histograms.items():
        assert [(labels, each.buckets, each.total) for labels, each in histograms.items()] == [
            (labels, each.buckets, each.total) for labels, each in apart.histograms[name].items()
        ]
    assert (apart.rules["data"].requests, +apart.rules["data"].sent) == (4, {"flight": 40, "ssd": 14})
    assert +together.rules["data"].sent == apart.rules["data"].sent


def test_reads_that_failed_are_counted_with_their_error() -> None:
    metrics, record = Metrics(), read_record("miss", flight=20)
    record.error, record.step, record.aborted = "InternalError", "flight", True
    metrics.record_request(record)
    assert metrics.counters["forebay_errors_total"]["InternalError", "flight"] == 1
    assert metrics.counters["forebay_aborted_total"][()] == 1
    assert metrics.counters["forebay_requests_total"]["GetObject", "200", "full"] == 1


def test_blocks_that_a_tier_counts_are_added_once() -> None:
    metrics, counts = Metrics(), BlockCounts()
    metrics.add_block_counts("memory", counts)
    counts.admitted, counts.admitted_bytes = 3, 300
    counts.evict([100, 50], "capacity")
    for _ in range(2):
        assert metrics.counters["forebay_tier_admitted_bytes_total"]["memory",] == 300
        assert metrics.counters["forebay_tier_evicted_bytes_total"]["memory", "capacity"] == 150
    counts.admitted += 1
    assert metrics.counters["forebay_tier_admitted_blocks_total"]["memory",] == 4
    assert metrics.counters["forebay_tier_evicted_blocks_total"]["memory", "capacity"] == 2
