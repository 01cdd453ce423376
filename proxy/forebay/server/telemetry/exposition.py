"""The exposition: the metrics as a text for Prometheus, written in steps.

    lines of counters, histograms, gauges, the process ──> some lines a step ──> the text

A worker has many hundred lines, and more with each principal and rule: all at once they would keep the event loop from
its readers for milliseconds. So the text is cooperative work (core.cooperative) of LINES lines a step, some fifty
microseconds. The lines of one label set of a histogram are of one moment, different label sets need not be. Labels are
in the order of their names, as prometheus-client has them.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client.metrics_core import Metric as Family

from forebay.core.cooperative import CooperativeWork
from forebay.server.telemetry.metric_table import LATENCY_BUCKETS, Metric
from forebay.server.telemetry.request_counts import Histogram

LINES: Final = 50
"""Lines that are written in one step, between which other callbacks may run."""
_BOUNDS: Final = (*(f"{bound:g}" for bound in LATENCY_BUCKETS), "+Inf")

Labels = tuple[str, ...]
Sample = tuple[str, Labels, float]
"""A gauge's name, its label values, its value."""


def text_of(lines: Iterable[str]) -> CooperativeWork[bytes]:
    """Writes lines to a text, LINES a step."""
    text: list[str] = []
    for line in lines:
        text.append(line)
        if len(text) % LINES == 0:
            yield
    return "".join(text).encode()


def counter_lines(metric: Metric, counters: Mapping[Labels, float]) -> Iterator[str]:
    """The lines of a counter. Its label sets are those at the first line."""
    yield _heading(metric.name, metric.kind, metric.meaning)
    for labels, value in list(counters.items()):
        yield _line(metric.name, zip(metric.labels, labels, strict=True), value)


def histogram_lines(metric: Metric, histograms: Mapping[Labels, Histogram]) -> Iterator[str]:
    """The lines of a histogram: buckets, count and sum of each label set."""
    yield _heading(metric.name, metric.kind, metric.meaning)
    for values, histogram in list(histograms.items()):
        counts, total = list(accumulate(histogram.buckets)), histogram.total
        labels = tuple(zip(metric.labels, values, strict=True))
        for bound, count in zip(_BOUNDS, counts, strict=True):
            yield _line(f"{metric.name}_bucket", (*labels, ("le", bound)), count)
        yield _line(f"{metric.name}_count", labels, counts[-1])
        yield _line(f"{metric.name}_sum", labels, total)


def gauge_lines(gauges: Mapping[str, Metric], samples: Iterable[Sample]) -> Iterator[str]:
    """The lines of gauges, whose samples come in any order: those of one gauge stand together. Empty lines while they
    are read."""
    lines: dict[str, list[str]] = {}
    for name, labels, value in samples:
        metric = gauges[name]
        if name not in lines:
            lines[name] = [_heading(name, metric.kind, metric.meaning)]
        lines[name].append(_line(name, zip(metric.labels, labels, strict=True), value))
        yield ""
    for each in lines.values():
        yield from each


def family_lines(family: Family) -> Iterator[str]:
    """The lines of a family that prometheus-client has collected: a counter or a gauge."""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    yield _heading(name, family.type, family.documentation)
    for sample in family.samples:
        yield _line(sample.name, sample.labels.items(), sample.value)


def _heading(name: str, kind: str, meaning: str) -> str:
    escaped = meaning.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}\n"


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    pairs = ",".join([f'{label}="{_escaped(text)}"' for label, text in sorted(labels)])
    return f"{name}{{{pairs}}} {float(value)}\n" if pairs else f"{name} {float(value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
