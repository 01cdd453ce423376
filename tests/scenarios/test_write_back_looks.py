"""The look at the origin before a write: an origin that gives no answer to it has not said that nobody wrote."""

from pathlib import Path

import pytest

from harness.clients import path_of
from harness.fake.actions import LoseAnswer, Respond
from harness.fake_origin import FakeOrigin
from harness.write_back_rig import WriteBackRig, at_origin

PATH = path_of("ckpt", "a/object")


@pytest.mark.parametrize("status", [400, 408, 409, 429, 500, 502, 503, 504])
async def test_an_unanswered_look_overwrites_nothing(tmp_path: Path, status: int) -> None:
    """Both attempts of the HEAD fail, as with a token that has expired, or in an outage."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.put("ckpt", "a/object", b"known")
        assert (await rig.client().request("GET", PATH)).body == b"known"
        origin.store.put("ckpt", "a/object", b"theirs")
        look = origin.faults.add(Respond(status), method="HEAD", key="a/object", times=2)
        await rig.put("a/object", b"ours")
        await rig.wait_idle()
        assert look.applied > 0
        assert [entry.is_conflict for entry in rig.write_back.drainer.entries.values()] == [True]
        assert at_origin(origin, "a/object") == b"theirs"


async def test_an_unanswered_look_repeats_no_write(tmp_path: Path) -> None:
    """The write is at the origin, and somebody else has replaced it since."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(LoseAnswer(), method="PUT", key="a/object", times=1)
        origin.faults.add(Respond(503), method="HEAD", key="a/object", times=2)
        await rig.put("a/object", b"ours")
        await rig.settled()
        assert at_origin(origin, "a/object") == b"ours"
        assert origin.log.count("PUT", key="a/object") == 1


@pytest.mark.parametrize("status", [401, 403, 405])
async def test_what_may_not_be_read_is_written(tmp_path: Path, status: int) -> None:
    """A credential that may write, and not read."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        await rig.put("a/object", b"first")
        origin.faults.add(Respond(status), method="HEAD", key="a/object")
        await rig.put("a/object", b"second")
        await rig.settled()
        assert at_origin(origin, "a/object") == b"second"


@pytest.mark.parametrize("code", ["RequestTimeout", "IncompleteBody"])
async def test_a_body_that_broke_off_is_sent_again(tmp_path: Path, code: str) -> None:
    """On the same condition: the origin has not refused that."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.put("ckpt", "a/object", b"known")
        assert (await rig.client().request("GET", PATH)).body == b"known"
        origin.faults.add(Respond(400, code), method="PUT", key="a/object", times=1)
        await rig.put("a/object", b"ours")
        await rig.wait_idle()
        sent = [each for each in origin.log.requests if (each.method, each.key) == ("PUT", "a/object")]
        assert ["If-Match" in each.headers for each in sent] == [True, True]
        assert at_origin(origin, "a/object") == b"ours"
