"""The metrics of a node from those of its workers: what is summed, and what is not."""

from forebay.core.cooperative import run_to_completion
from forebay.server.telemetry.metrics import Metrics
from forebay.workers.merged_metrics import ExitedCounters


def exposition(ready: float, oldest: float, free: float) -> str:
    metrics = Metrics()
    metrics.add_gauges(
        lambda: [
            ("forebay_ready", (), ready),
            ("forebay_flight_oldest_seconds", (), oldest),
            ("forebay_flight_readers", (), 3),
            ("forebay_tier_disk_free_bytes", ("ssd",), free),
            ("forebay_jobs", ("running",), 1),
        ]
    )
    metrics.count("forebay_key_requests_total", "job")
    return run_to_completion(metrics.exposition()).decode()


def test_gauges_of_a_node() -> None:
    merged = ExitedCounters().merged([exposition(1, 5, 100), exposition(0, 7, 90)], []).splitlines()
    assert "forebay_ready 0.0" in merged
    assert "forebay_flight_oldest_seconds 7.0" in merged
    assert "forebay_flight_readers 6.0" in merged
    assert 'forebay_tier_disk_free_bytes{tier="ssd"} 100.0' in merged
    assert 'forebay_jobs{state="running"} 2.0' in merged
    assert 'forebay_key_requests_total{principal="job"} 2.0' in merged


def test_process_metrics_are_summed() -> None:
    texts = [exposition(1, 0, 0), exposition(1, 0, 0)]
    merged = ExitedCounters().merged(texts, [])

    def value(text: str, name: str) -> float:
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))

    name = "process_cpu_seconds_total"
    assert round(value(merged, name), 2) == round(sum(value(text, name) for text in texts), 2)
    assert value(merged, "process_start_time_seconds") == value(texts[0], "process_start_time_seconds")
