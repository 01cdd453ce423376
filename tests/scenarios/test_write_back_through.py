"""What needs the origin's state goes through, after what is pending of its object."""

import base64
import hashlib
from pathlib import Path

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.write_back_rig import WriteBackRig, at_origin

KEY = b"k" * 32
SSE_C = (
    ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
    ("x-amz-server-side-encryption-customer-key", base64.b64encode(KEY).decode()),
    (
        "x-amz-server-side-encryption-customer-key-MD5",
        base64.b64encode(hashlib.md5(KEY, usedforsecurity=False).digest()).decode(),
    ),
)
WRITES = {
    "if-none-match": ("PUT", "", (("If-None-Match", "*"),)),
    "if-match": ("PUT", "", (("If-Match", '"0"'),)),
    "sse-c": ("PUT", "", SSE_C),
    "object lock": ("PUT", "", (("x-amz-object-lock-legal-hold", "ON"),)),
    "acl": ("PUT", "", (("x-amz-acl", "private"),)),
    "tags": ("PUT", "", (("x-amz-tagging", "a=b"),)),
    "an acl call": ("PUT", "?acl", (("x-amz-acl", "private"),)),
    "a tagging call": ("PUT", "?tagging", ()),
    "a version": ("DELETE", "?versionId=null", ()),
    "a header that is not known": ("PUT", "", (("x-amz-new-feature", "1"),)),
}


@pytest.mark.parametrize("case", WRITES)
async def test_it_goes_through_after_what_is_pending(tmp_path: Path, case: str) -> None:
    method, query, headers = WRITES[case]
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object")
        await rig.put("a/object", b"first")
        await gate.reached()
        before = len(origin.log.requests)
        write = rig.client().request(
            method, path_of("ckpt", "a/object") + query, headers, b"then" if not query else b""
        )
        through = TaskRegistry().spawn(write, "write")
        read = await rig.client().request("GET", path_of("ckpt", "a/object"))
        assert read.body == b"first"
        assert len(origin.log.requests) == before, "it waits"
        gate.open()
        answer = await through
        assert answer.headers.get("x-forebay-durable") != "local", answer
        assert len([each for each in origin.log.requests[before:] if each.method == method]) >= 1
        stored = at_origin(origin, "a/object")
        assert stored in ({b"then", b"first"} if method == "PUT" else {None, b"first"})
        if case.startswith("if-"):
            assert (answer.status, stored) == (412, b"first"), "the condition is judged by what was pending"


async def test_a_credential_of_ones_own_writes_through(tmp_path: Path) -> None:
    own = (
        '[[auth.keys]]\nid = "own"\nsecret = "own-secret"\ngrants = [{ path = "**", allow = ["read", "write"] }]\n'
        'origin_access_key = "%s"\norigin_secret_key = "%s"\n\n'
    )
    origin = FakeOrigin()
    rest = own % (origin.secret.access, origin.secret.secret)
    async with origin, WriteBackRig(origin, tmp_path, rest=rest) as rig:
        await rig.prove()
        client = rig.client(Secret("own", "own-secret"))
        answer = await client.request("PUT", path_of("ckpt", "a/object"), (), b"own")
        assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "origin")
        assert at_origin(origin, "a/object") == b"own"


async def test_n_readers_of_a_new_checkpoint_cost_the_origin_nothing(tmp_path: Path) -> None:
    """At once, once the bucket has it, and after a restart of the node."""
    content = b"weights!" * 300_000
    async with (
        FakeOrigin() as origin,
        WriteBackRig(origin, tmp_path, rule='freshness = "immutable"\n', ssd="64MiB") as rig,
    ):
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/weights")
        await rig.put("a/weights", content)
        for stage in ("pending", "persisted", "restarted"):
            for _ in range(8):
                read = await rig.client().request("GET", path_of("ckpt", "a/weights"))
                assert (read.body, read.headers["x-forebay-cache"].startswith("hit")) == (content, True), stage
            if stage == "pending":
                gate.open()
                await rig.settled()
                await rig.parts.tiers.flush()
            elif stage == "persisted":
                await rig.restart()
        assert origin.log.count("GET", key="a/weights") == 0
