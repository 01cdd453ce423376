"""`forebay flush`, against a scripted admin port."""

import argparse
import io
import json
from collections.abc import Mapping

import pytest

from forebay_client.cli.admin_client import AdminClient, AdminError, AdminRefused, AdminUnreachable, JsonObject
from forebay_client.cli.argument_types import admin_address
from forebay_client.cli.command_context import CommandContext, Screen
from forebay_client.cli.flush_command import flush
from forebay_client.cli.s3_location import Location
from harness.admin_control import FakeControl, sample_write
from harness.admin_port import admin_port
from harness.terminal import Typist


def test_it_waits_for_all_that_was_pending() -> None:
    control = FakeControl(pending={str(number): sample_write(number, id=str(number)) for number in (1, 2, 3)})
    with admin_port(control) as address:
        typed = Typist(address).type("flush", "s3://ckpts/run-7/")
    said = "All writes under s3://ckpts/run-7/ are at the origin: 3 writes had been pending.\n"
    assert (typed.code, typed.out) == (0, said)
    flushes = [call for call in control.calls if call[0] == "flush"]
    assert flushes == [("flush", "ckpts", "run-7/", before) for before in ("", "1000", "1000")]


def test_it_ends_at_a_stuck_write_and_names_it() -> None:
    """What waits for it is not waited for, however many they are."""
    many = {str(number): sample_write(number, id=str(number), state="waiting") for number in (2, 3, 4)}
    stuck = sample_write(1, id="1", state="stuck", reason="the origin answered 403 AccessDenied")
    with admin_port(control := FakeControl(pending={"1": stuck, **many})) as address:
        typed = Typist(address).type("flush", "s3://ckpts/run-7/")
        said = (
            f"held up by  1  s3://ckpts/{stuck.key}: the origin answered 403 AccessDenied\n"
            "Not at the origin under s3://ckpts/run-7/: 4 writes. A person has to deal with what holds them up: "
            "`forebay writes ls s3://ckpts/`.\n"
        )
        assert (typed.code, typed.err) == (1, said)
        typed = Typist(address).type("flush", "s3://ckpts", "--timeout", "600", "--json")
    named = {"id": "1", "bucket": "ckpts", "key": stuck.key, "reason": stuck.reason}
    assert (typed.code, json.loads(typed.out)) == (1, {"left": 4, "held_up": 4, "stuck": [named], "found": 4})
    assert len([call for call in control.calls if call[0] == "flush"]) == 2


def test_what_can_arrive_beside_a_stuck_write_is_waited_for() -> None:
    stuck, other = sample_write(1, id="1", state="stuck"), sample_write(2, id="2", state="failing")
    with admin_port(control := FakeControl(pending={"1": stuck, "2": other})) as address:
        typed = Typist(address).type("flush", "s3://ckpts", "--json")
    assert (typed.code, json.loads(typed.out)["left"], control.pending) == (1, 1, {"1": stuck})


def test_it_says_that_nothing_was_pending() -> None:
    with admin_port(FakeControl(pending={"1": sample_write(1, id="1")})) as address:
        typed = Typist(address).type("flush", "s3://ckpts/rnu-7/")
    assert (typed.code, typed.out) == (0, "No write is pending under s3://ckpts/rnu-7/.\n")


def test_a_bucket_that_does_not_exist_is_a_failure() -> None:
    with admin_port(FakeControl(pending={})) as address:
        typed = Typist(address).type("flush", "s3://mistyped")
    assert (typed.code, typed.out, typed.err) == (1, "", "There is no bucket mistyped.\n")


def test_it_needs_a_journal() -> None:
    with admin_port(FakeControl(pending=None)) as address:
        typed = Typist(address).type("flush", "s3://ckpts")
    assert (typed.code, typed.err[:31]) == (1, "Forebay runs without a journal:")


class _EndingForebay(AdminClient):
    """Answers once, with so many writes that are left."""

    def __init__(self, left: int, end: AdminError) -> None:
        super().__init__(admin_address("127.0.0.1:1"), None)
        self._left, self._end = left, end

    def post(self, path: str, fields: Mapping[str, object]) -> JsonObject:
        if fields["before"] or not self._left:
            raise self._end
        assert fields["wait"] == 0, "what is pending is known before anything ends"
        return {"left": self._left, "held_up": 0, "stuck": [], "before": "1", "found": self._left}


@pytest.mark.parametrize(
    "end", [AdminUnreachable("Nothing listens."), AdminRefused(503, "unavailable", "no worker runs")]
)
def test_it_says_what_was_left_when_forebay_ended(end: AdminError) -> None:
    err = io.StringIO()
    context = CommandContext(
        Screen(io.StringIO(), err, False), io.StringIO(), {}, lambda: 0.0, lambda: 0.0, lambda _: None
    )
    args = argparse.Namespace(location=Location("ckpts", "run-7/"), timeout=None, json=False)
    assert flush(_EndingForebay(3, end), context, args) == 1
    assert err.getvalue().startswith("Not at the origin under s3://ckpts/run-7/: 3 writes. Forebay has ended")
    with pytest.raises(type(end)):
        flush(_EndingForebay(0, end), context, args)


class _LateForebay(AdminClient):
    """So many writes are left, however long the flush waits."""

    def __init__(self, left: int) -> None:
        super().__init__(admin_address("127.0.0.1:1"), None)
        self._left = left

    def post(self, path: str, fields: Mapping[str, object]) -> JsonObject:
        return {"left": self._left, "held_up": 0, "stuck": [], "before": "1", "found": self._left}


@pytest.mark.parametrize(("left", "said"), [(1, "1 write. It goes on by itself: "), (2, "2 writes. They go on by ")])
def test_it_says_that_late_writes_go_on_by_themselves(left: int, said: str) -> None:
    err = io.StringIO()
    context = CommandContext(
        Screen(io.StringIO(), err, False), io.StringIO(), {}, lambda: 0.0, lambda: 0.0, lambda _: None
    )
    args = argparse.Namespace(location=Location("ckpts", ""), timeout=0, json=False)
    assert flush(_LateForebay(left), context, args) == 1
    assert said in err.getvalue()
