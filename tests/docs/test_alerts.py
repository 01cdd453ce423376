"""config/prometheus-alerts.yaml: the table in docs/metrics.md, the series of a fresh Forebay, and promtool.

Each alert has series, a sample a minute, with which it fires, and some with which it doesn't: in the notation of
https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/ (`0x9 5x9`: ten times 0, ten times 5;
`_x9`: no sample). A counter that falls to 0 is a restart.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from forebay.core.cooperative import run_to_completion
from forebay.server.telemetry.metric_table import CATALOGUE
from forebay.server.telemetry.metrics import Metrics

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "config" / "prometheus-alerts.yaml"
ALERTS: Final[Mapping[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
}
PROMTOOL: Final = shutil.which("promtool")
COUNTERS: Final = {metric.name for metric in CATALOGUE if metric.kind == "counter"}
_SELECTOR: Final = re.compile(r"(forebay_\w+)(?:\{([^}]*)\})?")
_MATCHER: Final = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')


class Case(NamedTuple):
    """An alert, with the minute that it is evaluated at."""

    alert: str
    minute: int
    fires: Mapping[str, str]
    """Series, and their samples."""
    quiet: Mapping[str, str]


def gauge(alert: str, series: str, bad: float, good: float, minute: int = 20) -> Case:
    """Of a gauge that is bad for good, or for one sample only."""
    return Case(alert, minute, {series: f"{bad}x30"}, {series: f"{good}x18 {bad} {good}x30"})


def event(alert: str, series: str) -> Case:
    """Of a counter that was increased once; quiet are one that was long ago, and a restart."""
    return Case(alert, 95, {series: "0x92 1x30"}, {series: "0x5 1x40 0x60"})


def born(alert: str, series: str) -> Case:
    """Of a counter that appears with its first increase; quiet is one that appears with 0."""
    return Case(alert, 95, {series: "_x92 1x30"}, {series: "_x92 0x30"})


REFUSED: Final = 'forebay_refused_total{code="SlowDown"}'
SLOW: Final = 'forebay_errors_total{code="SlowDown", step="flight"}'
RESPONSES: Final = 'forebay_origin_requests_total{operation="GetObject", status="%d"}'
INTERNAL: Final = 'forebay_errors_total{code="InternalError", step="flight"}'
CORRUPT: Final = 'forebay_tier_corrupt_total{tier="ssd"}'
RELOADS: Final = 'forebay_reloads_total{result="refused"}'
HITS: Final = 'forebay_cache_results_total{rule="default", cache="hit-memory"}'
MISSES: Final = 'forebay_cache_results_total{rule="default", cache="miss"}'
THROTTLED: Final = 'forebay_tier_throttled_total{tier="ssd"}'
FREE: Final = 'forebay_tier_disk_free_bytes{tier="ssd"}'
SIZE: Final = 'forebay_tier_disk_size_bytes{tier="ssd"}'

MAX_AGE: Final = "forebay_journal_max_age_seconds"
BACKLOG: Final = "forebay_journal_pending_bytes"
PERSISTED: Final = 'forebay_journal_writes_total{result="persisted"}'
FULL: Final = "forebay_journal_full_seconds_total"

UP: Final = 'up{job="f", instance="a"}'
INFO: Final = 'forebay_info{job="f", instance="a", version="1"}'
STARTED: Final = 'process_start_time_seconds{job="f", instance="a"}'

CASES: Final = (
    Case("ForebayDown", 20, {UP: "1x5 0x30", INFO: "1x5 _x30"}, {UP: "1x5 0x2 1x30", INFO: "1x5 _x2 1x30"}),
    Case("ForebayDown", 20, {UP: "1x5 0x30", INFO: "1x5 _x30"}, {UP: "0x40"}),  # somebody else's target
    Case("ForebayRestarting", 20, {STARTED: "1+9x40", INFO: "1x40"}, {STARTED: "1x8 9x8 17x30", INFO: "1x40"}),
    Case("ForebayRestarting", 20, {STARTED: "1+9x40", INFO: "1x40"}, {STARTED: "1+9x40"}),
    gauge("ForebayNotReady", "forebay_ready", bad=0, good=1),
    gauge("ForebayOriginAway", "forebay_origin_reachable", bad=0, good=1),
    gauge("ForebayCredentialRefused", "forebay_origin_credential_refused", bad=1, good=0),
    gauge("ForebayBreakerOpen", "forebay_origin_breaker_open", bad=1, good=0),
    gauge("ForebaySsdFailing", 'forebay_tier_failing{tier="ssd"}', bad=1, good=0),
    gauge("ForebayWriteStuck", "forebay_journal_stuck", bad=2, good=0),
    gauge("ForebayWriteConflict", "forebay_journal_conflicts", bad=1, good=0),
    gauge("ForebayJournalFailing", "forebay_journal_failing", bad=1, good=0),
    Case(
        "ForebayWritesLate",
        20,
        {"forebay_journal_oldest_seconds": "4000x30", MAX_AGE: "3600x30"},
        {"forebay_journal_oldest_seconds": "3000x30", MAX_AGE: "3600x30"},
    ),
    Case("ForebayDrainStalled", 30, {BACKLOG: "0+9x40", PERSISTED: "7x40"}, {BACKLOG: "0+9x40", PERSISTED: "0+1x40"}),
    Case("ForebayDrainStalled", 30, {BACKLOG: "5x5 5+9x40", PERSISTED: "0x40"}, {BACKLOG: "5x40", PERSISTED: "0x40"}),
    Case("ForebayJournalFull", 30, {FULL: "0+60x40"}, {FULL: "0+10x40"}),
    gauge("ForebayFlightStuck", "forebay_flight_oldest_seconds", bad=300, good=3),
    Case("ForebayDiskNearlyFull", 20, {FREE: "4x30", SIZE: "100x30"}, {FREE: "6x30", SIZE: "100x30"}),
    event("ForebayDefect", INTERNAL),
    born("ForebayDefect", INTERNAL),
    event("ForebayConnectionsRefused", REFUSED),
    born("ForebayConnectionsRefused", REFUSED),
    Case("ForebaySsdDamaged", 95, {CORRUPT: "0x92 1x30"}, {CORRUPT: "0x5 1x100"}),
    born("ForebaySsdDamaged", CORRUPT),
    event("ForebayJournalDamaged", "forebay_journal_damaged_parts_total"),
    Case("ForebayConfigurationRefused", 95, {RELOADS: "0x92 1x30"}, {RELOADS: "0x5 1x100"}),
    born("ForebayConfigurationRefused", RELOADS),
    event("ForebayCertificateRefused", "forebay_certificate_refusals_total"),
    born("ForebayCertificateRefused", "forebay_certificate_refusals_total"),
    Case("ForebayPushingBack", 30, {SLOW: "0+120x40"}, {SLOW: "0+30x40"}),
    Case("ForebaySsdTooSlow", 60, {THROTTLED: "0+5x70"}, {THROTTLED: "0+5x20 100x50"}),
    Case(
        "ForebayOriginFailing",
        30,
        {'forebay_origin_failures_total{operation="GetObject"}': "0+12x10 0+12x30"},  # with a restart
        {'forebay_origin_failures_total{operation="GetObject"}': "0+3x40"},
    ),
    Case(
        "ForebayOriginErrors",
        40,
        {RESPONSES % 200: "0+90x50", RESPONSES % 503: "0x10 0+10x40"},
        {RESPONSES % 200: "0+90x50", RESPONSES % 503: "0+1x50"},
    ),
    Case(
        "ForebayOriginDenies",
        40,
        {RESPONSES % 200: "0+90x50", RESPONSES % 403: "0+10x50"},
        {RESPONSES % 200: "0+90x50", RESPONSES % 403: "0+1x50"},
    ),
    Case(
        "ForebayHitRatioFell",
        700,
        {HITS: "0+900x620 558000+100x100", MISSES: "0+100x620 62000+900x100"},
        {HITS: "0+900x720", MISSES: "0+100x720"},
    ),
    Case(  # too few reads for a ratio, after a restart
        "ForebayHitRatioFell",
        700,
        {HITS: "0+900x620 0+100x100", MISSES: "0+100x620 0+900x100"},
        {HITS: "0+900x620 0x100", MISSES: "0+100x620 0+1x100"},
    ),
)


def test_the_page_has_the_alerts_as_a_table() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = {row.replace("\\|", "|") for row in page.splitlines() if row.startswith("| Forebay")}
    assert rows == {
        f"| {rule['alert']} | `{rule['expr']}` | {rule['for']} | {rule['annotations']['action']} |"
        for rule in ALERTS.values()
    }


def test_every_alert_has_its_cases() -> None:
    assert {case.alert for case in CASES} == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_counters_of_an_alert_begin_at_0(alert: str) -> None:
    """Each selector finds series in the metrics of a Forebay that has just been started."""
    fresh = [
        sample
        for family in text_string_to_metric_families(run_to_completion(Metrics().exposition()).decode())
        for sample in family.samples
        if family.type == "counter"
    ]
    for name, matchers in _SELECTOR.findall(ALERTS[alert]["expr"]):
        if name not in COUNTERS:
            continue
        found = [sample.labels for sample in fresh if sample.name == name]
        for label, operator, value in _MATCHER.findall(matchers):
            matches = {"=": value.__eq__, "!=": value.__ne__, "=~": re.compile(value).fullmatch}[operator]
            found = [labels for labels in found if matches(labels[label])]
            if operator == "=~" and "." not in value:
                assert {labels[label] for labels in found} == set(value.split("|"))
        assert found, f"{name}{{{matchers}}} has no series"
    assert all(sample.value == 0 for sample in fresh if sample.name in COUNTERS)


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (make promtool)")
def test_the_rules_are_valid() -> None:
    assert run_promtool("check", "rules", str(RULES)).returncode == 0


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (make promtool)")
@pytest.mark.parametrize("fires", [True, False], ids=["fires", "quiet"])
def test_alerts_fire_when_they_should(tmp_path: Path, fires: bool) -> None:
    """The cases of half a day are evaluated each ten minutes: each minute takes promtool seconds."""
    documents = []
    for name, interval, cases in (
        ("short", "1m", [case for case in CASES if case.minute < 300]),
        ("long", "10m", [case for case in CASES if case.minute >= 300]),
    ):
        document = tmp_path / f"{name}.yaml"
        document.write_text(yaml.safe_dump(promtool_tests(cases, interval, fires), sort_keys=False))
        documents.append(str(document))
    run = run_promtool("test", "rules", *documents)
    assert run.returncode == 0, run.stdout + run.stderr


def promtool_tests(cases: Sequence[Case], interval: str, fires: bool) -> Mapping[str, object]:
    """A document of promtool's, with a test of each case."""
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in chosen.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{case.alert}", alertstate="firing"}}) or vector(0)',
                    "eval_time": f"{case.minute}m",
                    "exp_samples": [{"labels": "{}", "value": int(fires)}],
                }
            ],
        }
        for case in cases
        for chosen in [case.fires if fires else case.quiet]
    ]
    return {"rule_files": [str(RULES)], "evaluation_interval": interval, "tests": tests}


def run_promtool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    assert PROMTOOL is not None
    environ = {**os.environ, "GOGC": "800"}  # its garbage collector took a quarter of its CPU
    return subprocess.run([PROMTOOL, *arguments], check=False, capture_output=True, text=True, env=environ)
