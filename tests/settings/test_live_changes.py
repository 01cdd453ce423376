"""Which changes need a restart."""

from dataclasses import replace

import pytest

from forebay.settings import (
    ListenAddress,
    Rule,
    Secret,
    Settings,
    SsdSettings,
    StaticKey,
    load_settings,
    restart_needed,
)
from forebay.settings.live_changes import applied_settings

TEXT = """
[server]
admin_token = "old"
[origin]
endpoint = "https://h"
access_key = "AK"
secret_key = "old"
[ssd]
path = "/ssd"
size = "10GiB"
[[auth.keys]]
id = "t"
secret = "s"
"""


def no_files(path: str) -> str:
    raise FileNotFoundError(path)


@pytest.fixture
def old() -> Settings:
    return load_settings(TEXT, {}, {}, no_files).settings


def test_nothing_changed(old: Settings) -> None:
    assert restart_needed(old, load_settings(TEXT, {}, {}, no_files).settings) == []


def test_rules_keys_and_sizes_change_as_it_runs(old: Settings) -> None:
    assert old.ssd is not None
    new = replace(
        old,
        server=replace(old.server, domains=("new.internal",), cnames={"new.example": "b"}, log_level="debug"),
        rules=(Rule("**", accelerate=False),),
        auth=replace(old.auth, mode="open", keys=()),
        memory=replace(old.memory, size=1, buffers=1),
        ssd=replace(old.ssd, size=1),
    )
    assert restart_needed(old, new) == []


def test_what_does_not(old: Settings) -> None:
    new = replace(
        old,
        server=replace(
            old.server, tls_listen=ListenAddress("::1", 1), workers=3, admin_token=Secret("new"), access_log="off"
        ),
        origin=replace(old.all_origins[0], endpoint="https://i", credentials=StaticKey("AK", Secret("new"), None)),
        limits=replace(old.limits, requests=1),
        ssd=SsdSettings("/other", 1),
    )
    assert restart_needed(old, new) == [
        "server.tls_listen",
        "server.workers",
        "server.admin_token",
        "server.access_log",
        "origin.endpoint",
        "limits.requests",
        "ssd.path",
    ]


def test_a_tier_that_comes_or_goes(old: Settings) -> None:
    without = replace(old, ssd=None)
    assert restart_needed(old, without) == restart_needed(without, old) == ["ssd.path"]
    assert restart_needed(without, without) == []


ORIGINS = """
[[origins]]
name = "far"
buckets = ["far-*"]
endpoint = "https://far"
access_key = "FAR"
secret_key = "old"
"""


def test_credentials_of_each_origin_change_as_it_runs() -> None:
    before = load_settings(TEXT + ORIGINS, {}, {}, no_files).settings
    after = load_settings(TEXT + ORIGINS.replace('"old"', '"new"'), {}, {}, no_files).settings
    assert restart_needed(before, after) == []
    applied = applied_settings(before, after)
    assert applied.origins == after.origins
    assert applied.origin == before.origin


@pytest.mark.parametrize(
    ("change", "paths"),
    [
        (("far-*", "other"), ["origins[0].buckets"]),
        (("https://far", "https://elsewhere"), ["origins[0].endpoint"]),
        (('"far"', '"renamed"'), ["origins"]),
        ((ORIGINS, ""), ["origins"]),
    ],
)
def test_a_bucket_keeps_its_origin_until_a_restart(change: tuple[str, str], paths: list[str]) -> None:
    """A key that comes with another endpoint is not sent to the old one."""
    before = load_settings(TEXT + ORIGINS, {}, {}, no_files).settings
    text = (TEXT + ORIGINS).replace(*change).replace('"FAR"', '"NEW"')
    after = load_settings(text, {}, {}, no_files).settings
    assert restart_needed(before, after) == paths
    applied = applied_settings(before, after).all_origins
    assert [(each.name, each.buckets, each.endpoint) for each in applied] == [
        (each.name, each.buckets, each.endpoint) for each in before.all_origins
    ]
    is_same = change[0] == "far-*"
    assert (applied[0].credentials == before.all_origins[0].credentials) is not is_same
