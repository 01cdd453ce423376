"""The metrics of a node: those of its workers, as one text for Prometheus.

Counters and histograms are sums, and never fall: they include the last report of each worker that has exited, so that
no rate is computed from a fall. Gauges are sums too, except those in which every worker reports the same thing
(`_SHARED`, the SSD tier), and the amplification, which is a ratio of sums.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

Key = tuple[str, tuple[tuple[str, str], ...]]
"""A sample's name, and its labels in order."""
Values = dict[Key, float]

AMPLIFICATION: Final = "forebay_read_amplification_ratio"
_SHARED: Final[Mapping[str, Callable[[float, float], float]]] = {
    "forebay_info": max,
    "forebay_origin_reachable": min,
    "forebay_origin_breaker_open": max,
    "forebay_ready": min,
    "forebay_flight_oldest_seconds": max,
    "process_start_time_seconds": max,
    "forebay_journal_capacity_bytes": max,
    "forebay_journal_used_bytes": max,
    "forebay_journal_writes": max,
    "forebay_journal_objects": max,
    "forebay_journal_pending_bytes": max,
    "forebay_journal_max_age_seconds": max,
    "forebay_journal_oldest_seconds": max,
    "forebay_journal_stuck": max,
    "forebay_journal_unsettled": max,
    "forebay_journal_waiting": max,
    "forebay_journal_conflicts": max,
    "forebay_journal_failing": max,
    "forebay_journal_uploads": max,
    "forebay_journal_upload_bytes": max,
    "forebay_origin_credential_refused": max,
}
_TIER_PREFIX: Final = "forebay_tier_"
_HISTORIES: Final = frozenset({"counter", "histogram"})


class ExitedCounters:
    """The counters and histograms of the workers that have exited."""

    def __init__(self) -> None:
        self._values: Values = {}

    def add(self, text: str) -> None:
        """Adds those of a worker's last text."""
        for family in text_string_to_metric_families(text):
            if family.type in _HISTORIES:
                for sample in family.samples:
                    key = _key(sample.name, sample.labels)
                    self._values[key] = self._values.get(key, 0.0) + sample.value

    def merged(self, texts: Iterable[str], gauges: Iterable[tuple[str, Mapping[str, str], float]]) -> str:
        """One text of the live workers' texts and these counters. `gauges`: the node's own, in place of theirs."""
        families: dict[str, Metric] = {}
        values: dict[str, Values] = {}
        for text in texts:
            for family in text_string_to_metric_families(text):
                metric = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                samples = values.setdefault(metric.name, {})
                for sample in family.samples:
                    key = _key(sample.name, sample.labels)
                    samples[key] = _combine(key, samples[key], sample.value) if key in samples else sample.value
        for key, value in self._values.items():
            name = _family_name(key[0])
            if name in families and families[name].type in _HISTORIES:
                values[name][key] = values[name].get(key, 0.0) + value
        for gauge, labels, value in gauges:
            name = gauge if gauge in families else _family_name(gauge)
            if name in families:
                values[name][_key(gauge, labels)] = value
        for name, samples in values.items():
            for (sample_name, sample_labels), value in sorted(samples.items(), key=_sort_key):
                families[name].add_sample(sample_name, dict(sample_labels), value)
        registry = CollectorRegistry()
        registry.register(_FixedCollector(list(families.values())))
        return generate_latest(registry).decode()


class _FixedCollector:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families

    def describe(self) -> Iterable[Metric]:
        return ()


def _key(name: str, labels: Mapping[str, str]) -> Key:
    return name, tuple(sorted(labels.items()))


def _combine(key: Key, left: float, right: float) -> float:
    name, labels = key
    if name in _SHARED:
        return _SHARED[name](left, right)
    if name.startswith(_TIER_PREFIX) and ("tier", "ssd") in labels and not name.endswith("_total"):
        return max(left, right)  # there is one SSD tier, which all workers report
    return left + right


def _family_name(sample: str) -> str:
    for suffix in ("_total", "_bucket", "_count", "_sum"):
        if sample.endswith(suffix):
            return sample.removesuffix(suffix)
    return sample


def _sort_key(sample: tuple[Key, float]) -> tuple[tuple[tuple[str, str], ...], bool, float, str]:
    """Buckets in the order of their bounds, before sum and count, label set by label set."""
    (name, labels), _ = sample
    bound = dict(labels).get("le")
    rest = tuple(pair for pair in labels if pair[0] != "le")
    return rest, bound is None, math.inf if bound in {None, "+Inf"} else float(bound or 0), name
