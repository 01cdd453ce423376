"""A client that waits for 100 Continue hears a refusal that the head decides, and does not send its body for it: one of
Forebay's own, and for a large body, which is not read ahead then, one of the origin's (RFC 9110 section 10.1.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from harness.clients import RawClient, path_of
from harness.fake.actions import HoldRequest, IgnoreBody, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer, head_bytes
from harness.rig import READER, TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

EXPECT: Final = ("Expect", "100-continue")
SMALL, LARGE = bytes(1000), bytes(range(256)) * (12 << 10)
REFUSED: Final = (IgnoreBody(), Respond(403, "AccessDenied"))


@dataclass
class _Heard:
    """What a client hears of a PUT: whether to send the body, and the answer."""

    is_asked: bool
    answer: RawAnswer


async def _put(
    client: RawClient, target: str, body: bytes, headers: Sequence[tuple[str, str]] = (), *, waits: bool = True
) -> _Heard:
    """`waits`: the client sends no body that it is not asked for."""
    request = client.sign("PUT", target, (EXPECT, *headers), body)
    async with await client.open() as connection:
        await connection.send(head_bytes(request.method, request.target, request.pairs))
        if not waits:
            await connection.send(body)
        head = await connection.read_head("100-continue")
        if head.status != 100:
            return _Heard(False, head)
        if waits:
            await connection.send(body)
        return _Heard(True, await connection.answer("PUT"))


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
async def test_what_forebay_refuses_is_not_asked_for(tmp_path: Path, body: bytes) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        for client, target, headers, status in (
            (rig.client(READER), path_of("ckpt", "a/key"), (), 403),
            (rig.client(replace(TRAINER, secret="another")), path_of("ckpt", "a/key"), (), 403),
            (rig.client(), path_of("ckpt", "a/key"), (("Content-MD5", "none"),), 400),
        ):
            before = len(origin.log.requests)
            heard = await _put(client, target, body, headers)
            assert (heard.is_asked, heard.answer.status) == (False, status)
            assert heard.answer.headers["Connection"] == "close"
            assert len(origin.log.requests) == before


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "sends"])
@pytest.mark.parametrize(("origin_type", "dialect"), [(FakeOrigin, "swift"), (OssOrigin, "oss")], ids=["s3", "oss"])
async def test_a_large_body_that_the_origin_refuses_is_not_asked_for(
    tmp_path: Path, origin_type: type[FakeOrigin], dialect: str, *, waits: bool
) -> None:
    """A client that has sent it all the same reads the answer, too."""
    async with origin_type() as origin, WriteBackRig(origin, tmp_path, dialect=dialect) as rig:
        await rig.prove()
        origin.store.create_bucket("bucket")
        refusal = origin.faults.add(*REFUSED, method="PUT")
        heard = await _put(rig.client(), path_of("bucket", "key"), LARGE, waits=waits)
        assert (heard.is_asked, heard.answer.status, heard.answer.headers["Connection"]) == (False, 403, "close")
        origin.faults.remove(refusal)
        heard = await _put(rig.client(), path_of("bucket", "key"), LARGE, waits=waits)
        assert (heard.is_asked, heard.answer.status) == (True, 200)
        assert at_origin(origin, "key", "bucket") == LARGE
        assert [each.headers.get("Expect") for each in origin.log.requests if each.key == "key"] == ["100-continue"] * 2
        assert rig.parts.storage.budget.in_use == 0


async def test_an_unread_body_is_sent_to_the_region_of_its_bucket(tmp_path: Path) -> None:
    """Which the refusal has told; a body that was read is gone, and its client has to send it again."""
    async with FakeOrigin(verify=False) as origin, WriteBackRig(origin, tmp_path, dialect="aws") as rig:
        origin.store.create_bucket("bucket")
        region = (("x-amz-bucket-region", "eu-west-1"),)
        redirect = Respond(301, "PermanentRedirect", "elsewhere", region)
        origin.faults.add(
            IgnoreBody(), redirect, where=lambda each: "/us-east-1/" in each.headers.get("Authorization", "")
        )
        heard = await _put(rig.client(), path_of("bucket", "key"), LARGE)
        assert (heard.is_asked, heard.answer.status) == (True, 200)
        assert at_origin(origin, "key", "bucket") == LARGE
        assert origin.log.count("PUT", key="key") == 2


async def test_a_small_body_is_read_before_the_origin_is_asked(tmp_path: Path) -> None:
    """It is verified whole before its request takes a turn there."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(*REFUSED, method="PUT")
        heard = await _put(rig.client(), path_of("bucket", "key"), SMALL)
        assert (heard.is_asked, heard.answer.status) == (True, 403)


@pytest.mark.parametrize("lane", [(), (("x-amz-acl", "private"),)], ids=["small", "full"])
async def test_an_empty_body_is_asked_for_whatever_the_answer(tmp_path: Path, lane: Sequence[tuple[str, str]]) -> None:
    """RFC 9110 allows to leave that out, but botocore then misreads the next answer of the connection: it takes the
    status of this one, reads no Content-Length, and waits a minute for the end of a body."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.create_bucket("bucket")
        for client, target, status in (
            (rig.client(), path_of("ckpt", "a/empty"), 200),
            (rig.client(), path_of("bucket", "empty"), 200),
            (rig.client(READER), path_of("bucket", "empty"), 403),
        ):
            heard = await _put(client, target, b"", lane)
            assert (heard.is_asked, heard.answer.status) == (True, status)


async def test_what_the_journal_takes_is_asked_for_without_the_origin(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT")
        heard = await _put(rig.client(), path_of("ckpt", "a/key"), LARGE)
        assert (heard.is_asked, heard.answer.headers["x-forebay-durable"]) == (True, "local")
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/key") == LARGE


async def test_the_client_is_asked_when_the_turn_of_its_write_has_come(tmp_path: Path) -> None:
    """Behind what is pending; a body that is not what was announced completes nothing at the origin."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, 'fence = ["**/latest"]\n') as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        await rig.put("a/pending", b"acknowledged")
        await gate.reached()
        target = path_of("ckpt", "a/latest")
        request = rig.client().sign("PUT", target, (EXPECT,), LARGE)
        async with await rig.client().open() as connection:
            await connection.send(head_bytes(request.method, request.target, request.pairs))
            await run_loop_until(lambda: rig.write_back.pending.waiting > 0)
            gate.open()
            assert (await connection.read_head("100-continue")).status == 100
            await connection.send(LARGE[:-1] + b"x")
            assert (await connection.answer("PUT")).status == 400
        assert (at_origin(origin, "a/pending"), at_origin(origin, "a/latest")) == (b"acknowledged", None)
