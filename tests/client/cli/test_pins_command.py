"""`forebay pin`, `unpin`, `pins` and `warm --pin`, against a scripted admin port."""

import json
from collections.abc import Iterator

import pytest

from forebay.server.admin.schema.warm_order import WarmOrder
from harness.admin_control import FakeControl
from harness.admin_port import admin_port
from harness.terminal import Typist


@pytest.fixture
def control() -> FakeControl:
    return FakeControl(steps=1)


@pytest.fixture
def forebay(control: FakeControl) -> Iterator[Typist]:
    with admin_port(control) as address:
        yield Typist(address)


def test_a_prefix_is_pinned_listed_and_unpinned(forebay: Typist) -> None:
    typed = forebay.type("pin", "s3://b/train/")
    assert (typed.code, typed.out) == (0, "Pinned s3://b/train/: 40 objects, 3.0 GiB.\n")
    typed = forebay.type("pin", "oss://b/unlisted/")
    assert (typed.code, typed.out) == (0, "Pinned s3://b/unlisted/; its size is not known yet.\n")
    lines = forebay.type("pins").out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["PINNED", "SIZE", "OBJECTS", "STATE", "PREFIX"],
        ["2.0", "GiB", "3.0", "GiB", "40", "ok", "s3://b/train/"],
        ["2.0", "GiB", "-", "-", "over", "quota", "s3://b/unlisted/"],
    ]
    assert lines[3] == "4.0 GiB of 375 GiB are pinned."
    typed = forebay.type("pins", "--json")
    assert [json.loads(line)["prefix"] for line in typed.out.splitlines()] == ["train/", "unlisted/"]
    typed = forebay.type("unpin", "s3://b/train/")
    assert (typed.code, typed.out) == (0, "Unpinned s3://b/train/, 2.0 GiB.\n")


def test_json_shows_the_pin(forebay: Typist) -> None:
    assert json.loads(forebay.type("pin", "s3://b", "--json").out)["size"] == 3 << 30
    assert json.loads(forebay.type("unpin", "s3://b", "--json").out)["prefix"] == ""


def test_a_refusal_names_the_sizes(forebay: Typist) -> None:
    typed = forebay.type("pin", "s3://b/large/")
    assert (typed.code, typed.err) == (1, "s3://b/large/ has 400 GiB; pins may take 375 GiB of the SSD tier.\n")


def test_what_is_not_pinned_can_not_be_unpinned(forebay: Typist) -> None:
    typed = forebay.type("unpin", "s3://b/train/")
    assert (typed.code, typed.err) == (1, "There is no pin of exactly this prefix; `forebay pins` lists the pins.\n")
    assert forebay.type("pins").err == "Nothing is pinned.\n"


def test_a_warm_up_pins_its_prefixes(forebay: Typist, control: FakeControl) -> None:
    assert forebay.type("warm", "s3://b/train/", "--pin").code == 0
    assert control.calls[-1] == ("start_job", WarmOrder("b", "train/", pin=True))


@pytest.mark.parametrize("arguments", [("s3://b/*.tar",), ("s3://b", "--keys", "-"), ("s3://b", "--check")])
def test_only_prefixes_are_pinned(forebay: Typist, arguments: tuple[str, ...]) -> None:
    typed = forebay.type("warm", "--pin", *arguments)
    assert (typed.code, "--pin is for prefixes" in typed.err) == (2, True)
