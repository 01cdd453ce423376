"""`forebay flush`, against a scripted admin port."""

import json

from harness.admin_control import FakeControl, sample_write
from harness.admin_port import admin_port
from harness.terminal import Typist


def test_it_waits_for_all_that_was_pending() -> None:
    control = FakeControl(pending={str(number): sample_write(number, id=str(number)) for number in (1, 2, 3)})
    with admin_port(control) as address:
        typed = Typist(address).type("flush", "s3://ckpts/run-7/")
    assert (typed.code, typed.out) == (0, "All writes under s3://ckpts/run-7/ are at the origin.\n")
    flushes = [call for call in control.calls if call[0] == "flush"]
    assert flushes == [("flush", "ckpts", "run-7/", before) for before in ("", "1000", "1000")]


def test_what_is_stuck_is_not_waited_for() -> None:
    control = FakeControl(pending={"1": sample_write(1, id="1", state="stuck"), "2": sample_write(2, id="2")})
    with admin_port(control) as address:
        typed = Typist(address).type("flush", "s3://ckpts/run-7/")
        said = "Not at the origin under s3://ckpts/run-7/: 2 writes; see `forebay writes ls s3://ckpts/`.\n"
        assert (typed.code, typed.err) == (1, said)
        typed = Typist(address).type("flush", "s3://ckpts", "--timeout", "600", "--json")
    assert (typed.code, json.loads(typed.out)) == (1, {"left": 2})


def test_what_waits_for_a_stuck_write_is_not_waited_for() -> None:
    """However many they are: of more than one page of the list it was waited for ever."""
    many = {str(number): sample_write(number, id=str(number), state="waiting") for number in (2, 3, 4)}
    with admin_port(FakeControl(pending={"1": sample_write(1, id="1", state="stuck"), **many})) as address:
        typed = Typist(address).type("flush", "s3://ckpts/", "--json")
    assert (typed.code, json.loads(typed.out)) == (1, {"left": 4})


def test_it_needs_a_journal() -> None:
    with admin_port(FakeControl(pending=None)) as address:
        typed = Typist(address).type("flush", "s3://ckpts")
    assert (typed.code, typed.err[:31]) == (1, "Forebay runs without a journal;")
