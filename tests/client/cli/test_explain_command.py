"""The lines of `forebay explain`."""

from typing import Any

from forebay_client.cli.explain_command import explanation_lines

EXPLANATION: dict[str, Any] = {
    "origin": "http://h",
    "decided": [
        {"name": "freshness", "value": "immutable", "rule": 0, "path": "data/**"},
        {"name": "block", "value": "1MiB", "rule": None, "path": None},
    ],
    "access": [{"key": "trainer", "allow": ["read"], "grants": [1]}, {"key": "guest", "allow": [], "grants": []}],
    "cached": None,
    "fresh": None,
    "stale_because": None,
    "read": "fetched",
}


def test_nothing_cached() -> None:
    assert list(explanation_lines(EXPLANATION)) == [
        "origin         http://h",
        "freshness      immutable    rules[0] (data/**)",
        "block          1MiB         by default",
        "access         trainer: read (grants[1])",
        "access         guest: nothing (no grant matches)",
        "cached         nothing",
        "a read now     fetched",
    ]


def test_a_cached_object_with_control_characters() -> None:
    cached = {"cached": 1024, "size": 2048, "memory": 1024, "ssd": 0, "etag": '"\x1b"'}
    stale = EXPLANATION | {"cached": cached, "fresh": False, "stale_because": "too old"}
    lines = list(explanation_lines(stale))
    assert lines[5].startswith("cached         1.0 KiB of 2.0 KiB (1.0 KiB in memory, 0 B on SSD)")
    assert "\x1b" not in lines[5]
    assert lines[6] == "freshness      stale: too old"
