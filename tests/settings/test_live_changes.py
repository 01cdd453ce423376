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
        origin=replace(old.origin, endpoint="https://i", credentials=StaticKey("AK", Secret("new"), None)),
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
