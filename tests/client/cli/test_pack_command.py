"""`forebay pack` and `forebay unpack`: the request, and what is refused."""

import json

import pytest

from forebay.server.admin.schema.pack_request import PackRequest
from harness.admin_control import FakeControl
from harness.admin_port import admin_port
from harness.terminal import Typed, Typist


def typed(control: FakeControl, *arguments: str) -> Typed:
    with admin_port(control) as address:
        return Typist(address).type(*arguments)


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        (("pack", "s3://b/p/"), PackRequest("b", "p/")),
        (("pack", "s3://b/p/", "--check"), PackRequest("b", "p/", action="check")),
        (
            ("pack", "s3://b/p/", "--shard-size", "4GiB", "--into", "s3://b/packs/"),
            PackRequest("b", "p/", "packs/", "4GiB"),
        ),
        (
            ("pack", "s3://b/p/", "--delete", "--only", "s3://b/p/x"),
            PackRequest("b", "p/", action="delete", only="p/x"),
        ),
        (("unpack", "oss://b/p/"), PackRequest("b", "p/", action="unpack")),
    ],
)
def test_the_order_is_what_was_typed(arguments: tuple[str, ...], order: PackRequest) -> None:
    control = FakeControl()
    found = typed(control, *arguments, "--detach")
    assert (found.code, found.err) == (0, "")
    assert control.calls[0] == ("start_pack", order)
    assert "`forebay jobs` shows how far it is" in found.out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--into", "s3://other/packed/"), "in the bucket of its objects"),
        (("--delete",), "Say with --only"),
        (("--delete", "--only", "s3://b/q/"), "is not under s3://b/p/"),
        (("--delete", "--only", "s3://b/p/x", "--check"), "are two jobs"),
        (("--only", "s3://b/p/x"), "--only belongs to --delete"),
        (("--check", "--only", "s3://b/p/x"), "--only belongs to --delete"),
        (("--report", "/none/failures.jsonl"), "/none/failures.jsonl can't be written"),
    ],
)
def test_wrong_usage_starts_nothing(arguments: tuple[str, ...], problem: str) -> None:
    control = FakeControl()
    found = typed(control, "pack", "s3://b/p/", *arguments)
    assert found.code == 2
    assert problem in found.err
    assert control.calls == []


@pytest.mark.parametrize(
    ("arguments", "report"),
    [
        (("--check",), "Verified 3 objects, 30 MiB in 3 s (10 MiB/s).\n"),
        (("--delete", "--only", "s3://b/p/x"), "Took out 3 objects.\n"),
    ],
)
def test_the_report_has_the_bytes_that_were_moved(arguments: tuple[str, ...], report: str) -> None:
    found = typed(FakeControl(), "pack", "s3://b/p/", *arguments)
    assert (found.code, found.out.endswith(report)) == (0, True), found.out


@pytest.mark.parametrize("following", [(), ("--detach",)])
def test_a_pack_that_no_rule_reads_is_warned_of(following: tuple[str, ...]) -> None:
    control = FakeControl(warning="No rule reads this pack.")
    with admin_port(control) as address:
        found = Typist(address).type("pack", "s3://b/p/", *following)
        assert (found.code, found.err) == (0, "No rule reads this pack.\n")
        assert "No rule reads this pack.\n" in Typist(address).type("jobs", "show", next(iter(control.running))).out
        as_json = Typist(address).type("pack", "s3://b/p/", *following, "--json")
        assert (json.loads(as_json.out)["warning"], as_json.err) == (control.warning, "")
