"""docs/metrics.md against the catalogue, and the catalogue against what a running Forebay exports.

Three things are held together: each metric has its row, word for word; each is exported under that name, kind and those
labels once there was traffic of the right sort; and what the page and the dashboard ask in PromQL can be answered. So
are the access log and its table.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from forebay.core.events import (
    AdmissionThrottled,
    CorruptionFound,
    HedgeEnded,
    OriginRefusedCredential,
    SlowResponse,
    TierFailed,
)
from forebay.core.request_record import RequestRecord
from forebay.server.telemetry.access_log import AccessLog
from forebay.server.telemetry.metric_table import CATALOGUE, Metric
from harness.clients import path_of
from harness.fake.actions import CloseAfter, Drop
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import Rig
from harness.warm_orders import start_job

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "metrics.md").read_text()
DASHBOARD: Final = json.loads((ROOT / "config" / "grafana-dashboard.json").read_text())
BY_NAME: Final = {metric.name: metric for metric in CATALOGUE}
_QUERY: Final = re.compile(r"((?:forebay|process)_\w+)(?:\{([^}]*)\})?")
_LABEL: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING: Final = re.compile(r"\bby \(([^)]*)\)")
MIB: Final = 1 << 20


def row_of(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |"


def test_every_metric_has_its_row_and_there_are_no_others() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `forebay_")]
    assert sorted(rows) == sorted(row_of(metric) for metric in CATALOGUE)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_are_as_prometheus_wants_them(metric: Metric) -> None:
    """https://prometheus.io/docs/practices/naming/: a prefix, base units, and `_total` for counters and them alone."""
    assert re.fullmatch(r"forebay_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.kind != "histogram" or metric.name.endswith("_seconds")
    for unit in ("milliseconds", "ms", "minutes", "kib", "mib", "mb", "percent"):
        assert unit not in metric.name.split("_")
    assert not {"le", "quantile", "job", "instance"} & set(metric.labels)


async def test_everything_is_exported_after_traffic_of_every_sort(tmp_path: Path) -> None:
    journal = f'[journal]\npath = "{tmp_path / "journal"}"\nsize = "64MiB"\n'
    journal += '[[rules]]\npath = "bucket/**"\nwrite = "back"\n'
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, memory="3MiB", ssd="256MiB", rest=journal) as rig,
    ):
        for key in ("one", "two", "three", "cut", "shaky"):
            origin.store.put("bucket", key, bytes(2 * MIB))
        origin.faults.add(CloseAfter(1000), method="GET", key="cut")
        origin.faults.add(Drop(), method="GET", key="shaky", times=2)
        client = rig.client()
        for key in ("one", "one", "two", "three", "one", "shaky"):  # hits, an eviction, a hit on the SSD, a retry
            assert (await client.request("GET", path_of("bucket", key))).status in {200, 503}
        assert (await client.request("GET", path_of("bucket", "cut"))).aborted
        for _ in range(2):  # through, and from the journal
            await client.request("PUT", path_of("bucket", "written"), body=b"received")
        stranger = await rig.client(Secret("nobody", "at-all")).request("GET", path_of("bucket", "one"))
        assert stranger.status == 403
        async with await client.open() as connection:
            await connection.send(b"GET this is not HTTP\r\n\r\n")
            assert (await connection.answer("GET")).status == 400
        job = await start_job(rig.parts.jobs.warm_ups, "bucket", keys=("one",))
        await rig.parts.jobs.warm_ups.wait(job.id)
        await rig.worker.reload()
        # What takes a broken disk or a slow origin is told as the parts tell it; that they do is shown by their tests.
        for event in (
            AdmissionThrottled("ssd", 1),
            CorruptionFound("ssd", "torn"),
            TierFailed("ssd", "read", "EIO"),
            HedgeEnded("won"),
            SlowResponse("replaced"),
            OriginRefusedCredential("InvalidAccessKeyId"),
        ):
            rig.parts.context.metrics.observe(event)
        await rig.parts.storage.tiers.flush()
        exported = await scrape(rig)
        for name in [name for name in exported if name.startswith("process_")]:
            assert f"`{name}`" in PAGE
            del exported[name]
        assert sorted(exported) == sorted(BY_NAME)
        for name, (kind, meaning, labels) in exported.items():
            metric = BY_NAME[name]
            assert (kind, meaning) == (metric.kind, metric.meaning)
            assert labels == {frozenset(metric.labels)}, f"{name} has no sample, or one with other labels"


async def scrape(rig: Rig) -> dict[str, tuple[str, str, set[frozenset[str]]]]:
    """What /metrics has: kind, meaning and the labels that the samples came with, by name as in the catalogue."""
    async with aiohttp.ClientSession() as session, session.get(f"{rig.admin}/metrics") as answer:
        assert answer.status == 200
        text = await answer.text()
    found: dict[str, tuple[str, str, set[frozenset[str]]]] = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
        found[name] = (family.type, family.documentation, labels)
    return found


def queries() -> Iterator[str]:
    yield from re.findall(r"^```promql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for row in PAGE.partition("## Alerts")[2].splitlines():
        if row.startswith("|") and "forebay_" in row:
            yield row.split(" | ")[1]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def asked_for(query: str) -> Iterator[tuple[Metric, set[str]]]:
    """The metrics of a query with the labels that it selects by. KeyError for a name that there is not."""
    for name, selector in _QUERY.findall(query):
        whole = re.sub(r"_(bucket|sum|count)$", "", name)
        if f"`{name}`" in PAGE and name.startswith("process_"):
            continue  # the client library's
        metric = BY_NAME.get(name) or BY_NAME[whole]
        yield metric, set(_LABEL.findall(re.sub(r'"[^"]*"', '""', selector)))


@pytest.mark.parametrize("query", list(queries()))
def test_queries_use_exported_metrics(query: str) -> None:
    metrics = list(asked_for(query))
    assert metrics or "process_" in query
    known = {"le", "job", "instance"}
    for metric, labels in metrics:
        assert labels <= {*metric.labels, "job", "instance"}
        known |= set(metric.labels)
    for grouping in _GROUPING.findall(query):
        assert {label.strip() for label in grouping.split(",")} <= known
    assert query.count("(") == query.count(")")


def test_query_for_a_missing_metric_is_detected() -> None:
    with pytest.raises(KeyError):
        list(asked_for("rate(forebay_request_total[5m])"))


def test_the_dashboard_is_one() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert DASHBOARD["title"] == "Forebay"
    assert DASHBOARD["schemaVersion"] >= 36
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["title"]
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel.get("targets", ()))


def test_the_dashboard_shows_what_alerts_look_at() -> None:
    shown = {name for panel in DASHBOARD["panels"] for name, _ in _QUERY.findall(json.dumps(panel.get("targets")))}
    rows = [row.split(" | ")[1] for row in PAGE.partition("## Alerts")[2].splitlines() if row.startswith("| Forebay")]
    assert {name for row in rows for name, _ in _QUERY.findall(row)} - shown <= {"forebay_info"}


async def test_the_access_log_has_the_fields_that_are_listed() -> None:
    reading, writing = os.pipe()
    log = AccessLog(writing, lambda: 0.0)
    log.write(RequestRecord("GET", 0.0, "0", first_byte=1.0, error="SlowDown", aborted=True))
    await log.flush()
    os.close(writing)
    with os.fdopen(reading) as lines:
        fields = set(json.loads(lines.read()))
    table = PAGE.partition("## The access log")[2]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", table, re.MULTILINE)
    assert fields == {field for row in rows for field in re.findall(r"`(\w+)`", row)}
