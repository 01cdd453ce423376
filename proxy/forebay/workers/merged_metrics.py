"""The metrics of a node: those of its workers, as one text for Prometheus.

Counters and histograms are sums. They never fall: what a worker had counted when it was last looked at stays counted
when it has died, so that no rate is taken of a fall. Gauges are sums too, but for what every worker tells of the same
thing (`_SHARED`), and for the amplification, which is no sum but a ratio of sums.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

Key = tuple[str, tuple[tuple[str, str], ...]]
Values = dict[Key, float]

AMPLIFICATION: Final = "forebay_read_amplification_ratio"
_SHARED: Final[Mapping[str, Callable[[float, float], float]]] = {
    "forebay_info": max,
    "forebay_origin_reachable": min,
}
_OF_TIERS: Final = "forebay_tier_"


class ExitedCounters:
    """What workers that have died had counted."""

    def __init__(self) -> None:
        self._values: Values = {}

    def add(self, text: str) -> None:
        """Keep what a worker's text counts."""
        for family in text_string_to_metric_families(text):
            if family.type in {"counter", "histogram"}:
                for sample in family.samples:
                    key = (sample.name, tuple(sorted(sample.labels.items())))
                    self._values[key] = self._values.get(key, 0.0) + sample.value

    def merged(self, texts: Iterable[str], more: Iterable[tuple[str, Mapping[str, str], float]]) -> str:
        """One text of those of the living, the dead, and gauges that the node itself has (instead of theirs)."""
        families: dict[str, Metric] = {}
        values: dict[str, Values] = {}
        for text in texts:
            for family in text_string_to_metric_families(text):
                kept = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                told = values.setdefault(kept.name, {})
                for sample in family.samples:
                    key = (sample.name, tuple(sorted(sample.labels.items())))
                    told[key] = _together(key, told[key], sample.value) if key in told else sample.value
        for name, told in values.items():
            if families[name].type in {"counter", "histogram"}:
                for key in [key for key in self._values if _family_of(key[0]) == name]:
                    told[key] = told.get(key, 0.0) + self._values[key]
        for name, given, value in more:
            family_name = name if name in families else _family_of(name)
            if family_name in families:
                values[family_name][name, tuple(sorted(given.items()))] = value
        for name, told in values.items():
            for (sample_name, labels), value in sorted(told.items(), key=_order):
                families[name].add_sample(sample_name, dict(labels), value)
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


def _together(key: Key, one: float, other: float) -> float:
    name, labels = key
    if name in _SHARED:
        return _SHARED[name](one, other)
    if name.startswith(_OF_TIERS) and ("tier", "ssd") in labels and not name.endswith("_total"):
        return max(one, other)  # all tell of one tier
    return one + other


def _family_of(sample: str) -> str:
    for suffix in ("_total", "_bucket", "_count", "_sum"):
        if sample.endswith(suffix):
            return sample.removesuffix(suffix)
    return sample


def _order(told: tuple[Key, float]) -> tuple[tuple[tuple[str, str], ...], bool, float, str]:
    """Buckets in the order of their bounds, before sum and count, label set by label set."""
    (name, labels), _ = told
    bound = dict(labels).get("le")
    rest = tuple(pair for pair in labels if pair[0] != "le")
    return rest, bound is None, math.inf if bound in {None, "+Inf"} else float(bound or 0), name
