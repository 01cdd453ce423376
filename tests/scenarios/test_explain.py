"""GET /v1/explain of a running Forebay: one worker, and two."""

from pathlib import Path

from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.packed_rig import RULE as PACKED
from harness.packed_rig import pack
from harness.rig import Rig
from harness.worker_node import Node, request_admin
from harness.write_back_rig import WriteBackRig

KEY = "train/007.jpg"


async def test_an_object_before_and_after_its_first_read(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        origin.store.put("bucket", "key-beside", b"content")
        await rig.client().request("GET", path_of("bucket", "key-beside"))
        question = "/v1/explain?bucket=bucket&key=key&access_key=reader"
        status, cold = await request_admin(rig.admin, "GET", question)
        assert (status, cold["cached"]) == (200, None)
        assert "AccessDenied" in cold["read"]
        await rig.client().request("GET", path_of("bucket", "key"))
        warm = (await request_admin(rig.admin, "GET", question.replace("reader", "trainer")))[1]
        assert (warm["cached"]["cached"], warm["fresh"], warm["read"]) == (7, True, "a hit: no request to the origin")
        rig.advance_clock(61)
        stale = (await request_admin(rig.admin, "GET", "/v1/explain?bucket=bucket&key=key"))[1]
        assert (stale["fresh"], [each["key"] for each in stale["access"]]) == (False, ["trainer", "reader"])


async def test_a_node_explains_what_all_its_workers_have(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Node(origin, tmp_path) as node:
        origin.store.put("bucket", "key", b"content")
        await node.client(1).request("GET", path_of("bucket", "key"))
        status, explained = await node.request_admin("GET", "/v1/explain?bucket=bucket&key=key")
        assert (status, explained["cached"]["cached"], explained["in_doubt"]) == (200, 7, False)


async def test_a_write_that_the_journal_has_is_read_from_there(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate, question = Gate(), "/v1/explain?bucket=ckpt&key=a/key"
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/key")
        assert (await request_admin(rig.admin, "GET", question))[1]["pending"] is None
        await rig.put("a/key", b"content")
        assert (await request_admin(rig.admin, "GET", question))[1]["pending"] == "put"
        await rig.client().request("DELETE", path_of("ckpt", "a/key"))
        assert (await request_admin(rig.admin, "GET", question))[1]["pending"] == "delete"
        gate.open()
        await rig.settled()


async def test_a_member_of_a_pack_has_its_place_in_a_shard(tmp_path: Path) -> None:
    question = f"/v1/explain?bucket=bucket&key={KEY}"
    async with FakeOrigin() as origin, Node(origin, tmp_path, 2, rest=PACKED) as node:
        pack(origin)
        unknown = (await node.request_admin("GET", question))[1]
        assert (unknown["member"], unknown["shard"]) == (None, None)
        assert unknown["read"].startswith("the member of a pack, if one has this key")
        content = (await node.client(1).request("GET", path_of("bucket", KEY))).body
        await origin.log.wait_idle()
        asked = [each for each in origin.log.requests if each.operation != "HeadBucket"]
        explained = (await node.request_admin("GET", question))[1]
        shard, offset, size = (explained["member"][each] for each in ("shard", "offset", "size"))
        kept = origin.store.get("bucket", shard)
        assert b"".join(kept.content.views(offset, offset + size)) == content
        assert explained["shard"]["cached"] >= size
        assert explained["read"] == "the member of a pack, from its shard"
        assert [each for each in origin.log.requests if each.operation != "HeadBucket"] == asked, (
            "nothing is requested for it"
        )
        await node.client(0).request("PUT", path_of("bucket", KEY), (), b"an object")
        assert (await node.request_admin("GET", question))[1]["member"] is None
