"""Conditions of writes to keys of members: a member is an object to them, and what has come in its place is kept."""

from pathlib import Path
from typing import Any

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.clients import path_of
from harness.conformance import texts
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.packed_objects import shard_and_index
from harness.packed_rig import RULE, read, rig_of
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig

KEY, CONTENT = "train/a", b"member"
ETAG = '"aa08769cdcb26674c6706093503ff0a3"'
OTHER = '"0123456789abcdef0123456789abcdef"'
NEW = ("If-None-Match", "*")


def pack(origin: FakeOrigin) -> None:
    shard, index = shard_and_index({KEY: CONTENT}, prefix="train/")
    origin.store.put("bucket", "packed/0.tar", shard)
    origin.store.put("bucket", "packed/index.fbpack", index)


async def write(client: Any, *condition: tuple[str, str], method: str = "PUT") -> tuple[int, list[str]]:
    answer = await client.request(method, path_of("bucket", KEY), condition, b"new" if method == "PUT" else b"")
    return answer.status, texts(answer, "Code") if answer.status >= 400 else []


@pytest.mark.parametrize(
    ("condition", "status"),
    [(NEW, 412), (("If-Match", OTHER), 412), (("If-Match", ETAG), 200), (("If-Match", ETAG.upper()), 200)],
)
async def test_a_put_compares_with_the_member(tmp_path: Path, condition: tuple[str, str], status: int) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert (await write(rig.client(), condition))[0] == status
        assert (await read(rig.client(), KEY)).body == (b"new" if status == 200 else CONTENT)


async def test_what_comes_in_the_members_place_is_kept(tmp_path: Path) -> None:
    """The member is looked at first, and an object is written around Forebay before the write is sent."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert (await read(rig.client(), KEY)).headers["ETag"] == ETAG
        assert (await write(rig.client(), ("If-Match", ETAG)))[0] == 200
        [put] = origin.log.matching(operation="PutObject")
        assert {name.lower(): value for name, value in put.headers.items()}["if-none-match"] == "*"
        assert "If-Match" not in put.headers


async def test_an_object_beside_the_member_is_the_origins_to_compare(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert (await read(rig.client(), KEY)).body == CONTENT
        origin.store.put("bucket", KEY, b"written around Forebay")
        assert (await write(rig.client(), ("If-Match", ETAG)))[0] == 412
        assert (await write(rig.client(), NEW))[0] == 412


@pytest.mark.parametrize("condition", [ETAG, "*"])
async def test_a_delete_compares_with_the_member(tmp_path: Path, condition: str) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        refused = await write(rig.client(), ("If-Match", OTHER), method="DELETE")
        assert refused == (412, ["PreconditionFailed"])
        assert (await read(rig.client(), KEY)).status == 200
        assert await write(rig.client(), ("If-Match", condition), method="DELETE") == (204, [])
        assert (await read(rig.client(), KEY)).status == 404


@pytest.mark.parametrize(("condition", "status"), [(NEW, 200), (("If-Match", ETAG), 404)])
async def test_a_member_that_is_being_deleted_is_none(tmp_path: Path, condition: tuple[str, str], status: int) -> None:
    """Its deletion is acknowledged and not at the origin yet: the condition is evaluated once it is."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=RULE + 'write = "back"\n') as rig:
        pack(origin)
        for method in ("PUT", "DELETE"):  # the first of their kinds go through
            assert (await rig.client().request(method, path_of("bucket", "train/proof"))).status in {200, 204}
        await rig.settled()
        origin.faults.add(HoldRequest(gate := Gate()), where=lambda asked: asked.method == "DELETE")
        assert (await write(rig.client(), method="DELETE"))[0] == 204
        writing = TaskRegistry().spawn(write(rig.client(), condition), "write")
        await gate.reached()
        gate.open()
        assert (await writing)[0] == status
        assert (await read(rig.client(), KEY)).status == status


async def test_writes_of_other_keys_are_not_looked_at(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, RULE) as rig:
        pack(origin)
        other = path_of("bucket", "train/none")
        assert (await rig.client().request("PUT", other, (NEW,), b"new")).status == 200
        assert (await rig.client().request("PUT", other, (NEW,), b"new")).status == 412
        assert (await write(rig.client()))[0] == 200


async def test_oss_clients_forbid_to_overwrite_a_member(tmp_path: Path) -> None:
    forbidding = ("x-oss-forbid-overwrite", "true")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        client = OssClient(rig.endpoint, TRAINER)
        assert await write(client, forbidding) == (409, ["FileAlreadyExists"])
        begun = await client.request("POST", path_of("bucket", KEY) + "?uploads", (forbidding,))
        assert begun.status == 409
        assert (await read(rig.client(), KEY)).body == CONTENT
