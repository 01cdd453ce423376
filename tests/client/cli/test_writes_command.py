"""`forebay writes`, against a scripted admin port."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.admin_control import FakeControl, sample_write
from harness.admin_port import admin_port
from harness.terminal import Typist

STUCK = sample_write(17, state="stuck", attempts=2, reason="the origin answered AccessDenied")
BEHIND = sample_write(18, waits_for=STUCK.id)


@pytest.fixture
def control() -> FakeControl:
    found = FakeControl()
    found.pending = {each.id: each for each in (STUCK, BEHIND, sample_write(19, kind="complete", parts=3))}
    return found


@pytest.fixture
def forebay(control: FakeControl) -> Iterator[Typist]:
    with admin_port(control) as address:
        yield Typist(address)


def test_pages_of_writes_are_one_list(forebay: Typist) -> None:
    lines = forebay.type("writes").out.splitlines()
    assert lines[0].split() == ["WRITE", "STATE", "KIND", "SIZE", "AGE", "TRIES", "OBJECT"]
    assert lines[1].split()[:5] == ["5d1c2f90aa31-17", "stuck", "put", "3.0", "MiB"]
    assert lines[1].split()[-2:] == ["2", "s3://ckpts/run-7/step-17.pt"]
    assert lines[4] == "3 writes of 9.0 MiB."
    typed = forebay.type("writes", "ls", "s3://ckpts/run-7/step-1", "--state", "stuck", "--json")
    assert [json.loads(line)["id"] for line in typed.out.splitlines()] == [STUCK.id]


def test_a_location_of_either_scheme_means_the_same(forebay: Typist, control: FakeControl) -> None:
    typed = forebay.type("writes", "ls", "oss://ckpts/run-7/step-17", "--json")
    assert [json.loads(line)["id"] for line in typed.out.splitlines()] == [STUCK.id]
    assert forebay.type("writes", "discard", STUCK.id, "oss://ckpts/run-7/step-17.pt").code == 0
    assert forebay.type("writes", "ls", "ckpts/run-7").err == (
        "'ckpts/run-7' is not a location; one looks like s3://bucket/prefix.\n"
    )


def test_no_pending_write_is_no_failure(forebay: Typist, control: FakeControl) -> None:
    control.pending = {}
    typed = forebay.type("writes", "ls")
    assert (typed.code, typed.out, typed.err) == (0, "", "No writes are pending.\n")
    for narrowed in (("s3://ckpts/run-8/",), ("--state", "stuck")):
        assert forebay.type("writes", "ls", *narrowed).err == "No such writes are pending.\n"
    control.pending = None
    typed = forebay.type("writes")
    assert (typed.code, typed.err) == (1, "Forebay runs without a journal: configure [journal], and restart Forebay.\n")


def test_one_is_shown_with_its_reason(forebay: Typist) -> None:
    shown = forebay.type("writes", "show", STUCK.id).out
    assert "The last attempt failed: the origin answered AccessDenied.\n" in shown
    assert "Content-Type: binary/octet-stream\n" in shown
    assert "It waits for 5d1c2f90aa31-17, which" in forebay.type("writes", "show", BEHIND.id).out
    assert "It has 3 parts.\n" in forebay.type("writes", "show", "5d1c2f90aa31-19").out
    assert json.loads(forebay.type("writes", "show", STUCK.id, "--json").out)["attempts"] == 2
    typed = forebay.type("writes", "show", "none-1")
    assert (typed.code, typed.err) == (
        1,
        "No such write is pending (any more); see `forebay writes`.\n",
    )


def test_only_a_stuck_one_is_tried_again(forebay: Typist) -> None:
    typed = forebay.type("writes", "retry", STUCK.id)
    assert (typed.code, typed.out) == (0, "Tried again: put of s3://ckpts/run-7/step-17.pt, 3.0 MiB.\n")
    typed = forebay.type("writes", "retry", BEHIND.id)
    assert (typed.code, typed.err[:17]) == (1, "It is not stuck, ")


def test_one_is_exported_whole_or_not_at_all(forebay: Typist, control: FakeControl, tmp_path: Path) -> None:
    file = tmp_path / "step-17.pt"
    assert forebay.type("writes", "export", STUCK.id, str(file)).code == 0
    assert file.read_bytes() == control.content
    file.write_bytes(b"of somebody else")
    typed = forebay.type("writes", "export", STUCK.id, str(file))
    assert (typed.code, typed.err) == (2, f"{file} exists; --force writes over it.\n")
    assert file.read_bytes() == b"of somebody else"
    assert forebay.type("writes", "export", STUCK.id, str(file), "--force").code == 0
    assert file.read_bytes() == control.content
    control.damage = "Its bytes can't be read: the body is missing."
    typed = forebay.type("writes", "export", STUCK.id, str(tmp_path / "other"))
    assert (typed.code, typed.err) == (1, "Its bytes can't be read: the body is missing.\n")
    typed = forebay.type("writes", "export", STUCK.id, str(tmp_path / "none" / "file"))
    assert (typed.code, "can't be written: No such file" in typed.err) == (2, True)
    assert [each.name for each in tmp_path.iterdir()] == ["step-17.pt"]


def test_a_write_is_discarded_by_its_id_and_name(forebay: Typist, control: FakeControl) -> None:
    typed = forebay.type("writes", "discard", STUCK.id, "s3://ckpts/run-7/step-17.pt")
    assert (typed.code, typed.out) == (0, "Discarded: put of s3://ckpts/run-7/step-17.pt, 3.0 MiB.\n")
    assert control.calls[-1] == ("discard_write", STUCK.id, "ckpts", "run-7/step-17.pt")
    typed = forebay.type("writes", "discard", STUCK.id, "s3://ckpts/run-7/other")
    assert (typed.code, typed.err) == (1, "No such write of this object is pending (any more).\n")
    assert forebay.type("writes", "discard", BEHIND.id, "s3://ckpts/run-7/step-18.pt").code == 1


@pytest.mark.parametrize(
    "typed",
    [
        ["ls", "s3://b/p", "file"],
        ["show"],
        ["show", "s3://b/k"],
        ["show", "1-1", "file"],
        ["export", "1-1"],
        ["export", "1-1", "s3://b/k"],
        ["discard", "1-1"],
        ["discard", "1-1", "key"],
        ["retry", "1-1", "--state", "stuck"],
        ["retry", "1-1", "--force"],
        ["ls", "--force"],
        ["ls", "ckpts/run-7"],
        ["ls", "s3://"],
        ["discard", "1-1", "s3://"],
        ["show", "oss://b/k"],
    ],
    ids=" ".join,
)
def test_contradictory_commands_call_nothing(forebay: Typist, control: FakeControl, typed: list[str]) -> None:
    assert forebay.type("writes", *typed).code == 2
    assert control.calls == []
