"""Dataclasses as JSON and back: each kind of annotation, and the documents that do not fit."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version
from forebay.peers.json_codec import from_json, to_json
from forebay.server.admin.schema.stats_schema import Stats
from harness.admin_control import sample_stats


@dataclass(frozen=True, slots=True)
class Sample:
    total: int = field(init=False)
    counts: Mapping[str, int]
    pair: tuple[str, int]
    names: tuple[ObjectName, ...]
    state: Literal["on", "off"]
    age: float | None
    cursor: bytes
    note: str = field(init=False, default="noted")

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.counts.values()))


SAMPLE = Sample({"a": 1, "b": 2}, ("x", 3), (ObjectName("bucket", "key"),), "on", None, b"\x00\xff")
DOCUMENT: dict[str, Any] = {
    "total": 3,
    "counts": {"a": 1, "b": 2},
    "pair": ["x", 3],
    "names": [["bucket", "key"]],
    "state": "on",
    "age": None,
    "cursor": "00ff",
    "note": "noted",
}


def test_every_annotation_is_written_and_read() -> None:
    assert to_json(SAMPLE) == DOCUMENT
    assert list(to_json(SAMPLE)) == list(DOCUMENT)
    assert from_json(Sample, json.loads(json.dumps(DOCUMENT))) == SAMPLE


def test_derived_fields_are_computed_anew() -> None:
    assert from_json(Sample, {**DOCUMENT, "total": 99}).total == 3


def test_unknown_fields_are_ignored() -> None:
    assert from_json(Sample, {**DOCUMENT, "more": 1}) == SAMPLE


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("counts", {"a": "1"}),
        ("counts", {"a": True}),
        ("pair", ["x"]),
        ("pair", "x3"),
        ("names", [["bucket"]]),
        ("state", "perhaps"),
        ("age", "1"),
        ("cursor", "zz"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        from_json(Sample, {**DOCUMENT, name: value})


def test_a_missing_field_is_refused() -> None:
    with pytest.raises(KeyError):
        from_json(Sample, {})


def test_whole_seconds_are_read_as_a_float() -> None:
    assert isinstance(from_json(Sample, {**DOCUMENT, "age": 1}).age, float)


def test_heads_and_stats_survive_a_round_trip() -> None:
    facts = ObjectFacts(Version('"e"', None), 10, "Sun, 15 Jun 2025 15:06:40 GMT", (("Content-Type", "text/plain"),))
    head = Head(facts, 4, Generation(b"generation"), 1.5)
    assert from_json(Head, json.loads(json.dumps(to_json(head)))) == head
    stats = sample_stats()
    assert from_json(Stats, json.loads(json.dumps(to_json(stats)))) == stats
