"""The text of the metrics: what Prometheus reads in it, and in how many steps it is written."""

from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from forebay.core.cooperative import run_to_completion
from forebay.server.telemetry.exposition import LINES, Sample, counter_lines, gauge_lines, histogram_lines, text_of
from forebay.server.telemetry.metric_table import LATENCY_BUCKETS, Metric
from forebay.server.telemetry.metrics import Metrics
from forebay.server.telemetry.request_counts import Histogram

Found = dict[tuple[str, tuple[tuple[str, str], ...]], float]
COUNTER: Final = Metric("forebay_reads_total", "counter", ("rule", "cache"), 'A "meaning", a \\ and\na second line.')
HISTOGRAM: Final = Metric("forebay_wait_seconds", "histogram", ("cache",), "Waits.")
GAUGES: Final = {name: Metric(name, "gauge", ("tier",), "Bytes.") for name in ("forebay_a", "forebay_b")}


def _parsed(text: bytes) -> Found:
    families = list(text_string_to_metric_families(text.decode()))
    assert len({family.name for family in families}) == len(families), "the samples of a family stand together"
    return {
        (sample.name, tuple(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def _steps(metrics: Metrics) -> int:
    return sum(1 for _ in metrics.exposition())


def test_labels_are_escaped_and_in_order() -> None:
    labels = ('a "rule", \\ and\nmore', "miss")
    text = run_to_completion(text_of(counter_lines(COUNTER, {labels: 5, ("other", "miss"): 10**12 + 1})))
    assert _parsed(text) == {
        ("forebay_reads_total", (("cache", "miss"), ("rule", labels[0]))): 5,
        ("forebay_reads_total", (("cache", "miss"), ("rule", "other"))): 10**12 + 1,
    }
    [family] = text_string_to_metric_families(text.decode())
    assert family.documentation == COUNTER.meaning


def test_buckets_are_cumulative() -> None:
    histogram = Histogram()
    for seconds in (0.00001, 0.00007, 0.00008, 100.0):
        histogram.add(seconds)
    found = _parsed(run_to_completion(text_of(histogram_lines(HISTOGRAM, {("hit",): histogram}))))
    buckets = [value for (name, _), value in found.items() if name.endswith("_bucket")]
    assert buckets == [1, *[3] * (len(LATENCY_BUCKETS) - 1), 4]
    assert found["forebay_wait_seconds_count", (("cache", "hit"),)] == 4
    assert found["forebay_wait_seconds_sum", (("cache", "hit"),)] == histogram.total


def test_samples_of_a_gauge_stand_together_however_they_come() -> None:
    samples: list[Sample] = [
        ("forebay_a", ("memory",), 1),
        ("forebay_b", ("memory",), 2.5),
        ("forebay_a", ("ssd",), 3),
    ]
    assert list(_parsed(run_to_completion(text_of(gauge_lines(GAUGES, samples)))).values()) == [1, 3, 2.5]


def test_a_page_is_written_some_lines_a_step() -> None:
    """However many principals, rules and gauges there are: no step writes all of a family."""
    metrics = Metrics()
    few, many = _steps(metrics), 40 * LINES
    for number in range(many):
        metrics.count("forebay_key_requests_total", f"key-{number}")
    counted = _steps(metrics)
    assert counted >= few + many // LINES
    for number in range(many):
        metrics.time("forebay_origin_seconds", 1.0, f"operation-{number}")
    timed = _steps(metrics)
    assert timed >= counted + many * len(LATENCY_BUCKETS) // LINES
    metrics.add_gauges(lambda: (("forebay_tier_used_bytes", (f"tier-{number}",), 1.0) for number in range(many)))
    assert _steps(metrics) >= timed + many // LINES


def test_what_happens_between_two_steps_does_not_break_the_page() -> None:
    metrics = Metrics()
    for number in range(10 * LINES):
        metrics.count("forebay_key_requests_total", f"key-{number}")
    steps = metrics.exposition()
    added = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            text: bytes = done.value
            break
        metrics.count("forebay_key_requests_total", f"new-{added}")
        added += 1
    assert added
    found = _parsed(text)
    assert sum(name == "forebay_key_requests_total" for name, _ in found) >= 10 * LINES
