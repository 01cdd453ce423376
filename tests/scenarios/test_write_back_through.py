"""What needs the origin's state goes through, after what is pending of its object."""

import asyncio
import base64
import hashlib
from pathlib import Path

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.clients import path_of
from harness.fake.actions import HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.form_uploads import form, post
from harness.inspection import run_loop_until
from harness.reference_sigv4 import Secret
from harness.write_back_rig import WriteBackRig, at_origin

KEY = b"k" * 32
TAGS = b"<Tagging><TagSet><Tag><Key>team</Key><Value>red</Value></Tag></TagSet></Tagging>"
FENCE = 'fence = ["**/latest*"]\n'
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
    "an extension of Swift": ("PUT", "", (("X-Delete-After", "60"),)),
}


@pytest.mark.parametrize("case", WRITES)
async def test_it_goes_through_after_what_is_pending(tmp_path: Path, case: str) -> None:
    method, query, headers = WRITES[case]
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object", times=1)
        await rig.put("a/object", b"first")
        await gate.reached()
        before = len(origin.log.requests)
        body = {"": b"then", "?tagging": TAGS}.get(query, b"") if method == "PUT" else b""
        write = rig.client().request(method, path_of("ckpt", "a/object") + query, headers, body)
        through = TaskRegistry().spawn(write, "write")
        await run_loop_until(lambda: through.done() or rig.write_back.pending.waiting > 0)
        assert (through.done(), len(origin.log.requests)) == (False, before), "it waits"
        read = await rig.client().request("GET", path_of("ckpt", "a/object"))
        assert read.body == b"first"
        gate.open()
        answer = await through
        assert answer.headers.get("x-forebay-durable") != "local", answer
        assert [each.method for each in origin.log.requests[before:] if each.method != "HEAD"] == [method]
        stored, is_written = at_origin(origin, "a/object"), answer.status in {200, 204}
        assert is_written == (not case.startswith("if-")), "a condition is judged by what was pending"
        if query in {"?acl", "?tagging"} or not is_written:
            assert stored == b"first"
        else:
            assert stored == (b"then" if method == "PUT" else None)


OWN = (
    '[[auth.keys]]\nid = "own"\nsecret = "own-secret"\ngrants = [{ path = "**", allow = ["read", "write"] }]\n'
    'origin_access_key = "%s"\norigin_secret_key = "%s"\n\n'
)


async def test_a_credential_of_ones_own_reads_what_has_arrived(tmp_path: Path) -> None:
    """Only the origin knows what it may read: it waits for what is pending, and not for ever."""
    origin = FakeOrigin()
    rest = OWN % (origin.secret.access, origin.secret.secret)
    async with origin, WriteBackRig(origin, tmp_path, rest=rest) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object")
        await rig.put("a/object", b"pending")
        client, target = rig.client(Secret("own", "own-secret")), path_of("ckpt", "a/object")
        rig.write_back.pending.read_seconds = 0.01
        answer = await client.request("GET", target)
        assert (answer.status, b"<Code>SlowDown</Code>" in answer.body) == (503, True)
        rig.write_back.pending.read_seconds = 60.0
        reading = TaskRegistry().spawn(client.request("GET", target), "read")
        await run_loop_until(lambda: rig.write_back.pending.waiting > 0)
        gate.open()
        assert (await reading).body == b"pending"


async def test_a_credential_of_ones_own_writes_through(tmp_path: Path) -> None:
    origin = FakeOrigin()
    rest = OWN % (origin.secret.access, origin.secret.secret)
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
                await rig.parts.storage.tiers.flush()
            elif stage == "persisted":
                await rig.restart()
        assert origin.log.count("GET", key="a/weights") == 0


async def test_a_form_is_the_put_that_it_stands_for(tmp_path: Path) -> None:
    """Acknowledged here, and carried out after what is pending; with an ACL it goes through."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate, client = Gate(), rig.boto3(signature_version="s3v4")
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object")
        await rig.put("a/object", b"first")
        await gate.reached()

        def fields_of(key: str, **added: str) -> dict[str, str]:
            conditions = [{name: value} for name, value in added.items()]
            return dict(client.generate_presigned_post("ckpt", key, Fields=added, Conditions=conditions)["fields"])

        fields = await asyncio.to_thread(fields_of, "a/object")
        public = await asyncio.to_thread(fields_of, "a/public", acl="public-read")
        client.close()
        answer = await post(rig.client(), form(fields, b"by a form"), "/ckpt")
        assert (answer.status, answer.headers["x-forebay-durable"]) == (204, "local")
        read = await rig.client().request("GET", path_of("ckpt", "a/object"))
        assert (read.body, at_origin(origin, "a/object")) == (b"by a form", None)
        gate.open()
        answer = await post(rig.client(), form(public, b"for all"), "/ckpt")
        assert (answer.status, answer.headers["x-forebay-durable"]) == (204, "origin")
        await rig.settled()
        assert (at_origin(origin, "a/object"), at_origin(origin, "a/public")) == (b"by a form", b"for all")


async def test_a_batch_delete_with_a_fenced_key_goes_through(tmp_path: Path) -> None:
    """As a whole, after everything that was acknowledged before; one without such a key does not."""
    rule = 'fence = ["**/latest"]\n'
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rule=rule) as rig:
        await rig.prove()
        client = rig.boto3()
        for key in ("a/1", "a/2", "a/latest"):
            origin.store.put("ckpt", key, b"x")

        async def delete(*keys: str) -> str | None:
            listed = {"Objects": [{"Key": key} for key in keys]}
            answer = await asyncio.to_thread(lambda: client.delete_objects(Bucket="ckpt", Delete=listed))
            assert {each["Key"] for each in answer["Deleted"]} == set(keys)
            found: str | None = answer["ResponseMetadata"]["HTTPHeaders"].get("x-forebay-durable")
            return found

        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/before")
        await rig.put("a/before", b"acknowledged before")
        deleted = TaskRegistry().spawn(delete("a/1", "a/latest"), "batch")
        await gate.reached()
        assert (at_origin(origin, "a/1"), origin.log.count(operation="DeleteObjects")) == (b"x", 0)
        gate.open()
        assert await deleted == "origin"
        assert [at_origin(origin, key) for key in ("a/before", "a/1", "a/latest")] == [
            b"acknowledged before",
            None,
            None,
        ]
        assert await delete("a/2") == "local"
        await rig.settled()
        assert at_origin(origin, "a/2") is None
        client.close()


async def test_writes_of_a_bucket_go_through(tmp_path: Path) -> None:
    requests = (("PUT", "", b""), ("PUT", "?tagging", TAGS), ("DELETE", "?tagging", b""), ("DELETE", "", b""))
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        client, bucket = rig.client(), path_of("ckpt")
        answers = [await client.request(method, bucket + query, (), body) for method, query, body in requests]
        assert [answer.status for answer in answers] == [200, 204, 204, 204]
        assert (await client.request("HEAD", bucket)).status == 404


async def test_a_write_that_goes_through_is_cached_by_its_rule(tmp_path: Path) -> None:
    rule = 'warm_on_write = true\nfence = ["**/latest"]\n'
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rule) as rig:
        await rig.prove()
        answer = await rig.client().request("PUT", path_of("ckpt", "a/latest"), (), b"step-7")
        assert (answer.status, answer.headers.get("x-forebay-durable")) == (200, "origin")
        await rig.parts.context.tasks.wait_idle()
        read = await rig.client().request("GET", path_of("ckpt", "a/latest"))
        assert (read.body, read.headers["x-forebay-cache"]) == (b"step-7", "hit-memory")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_copy_comes_after_its_source_of_another_bucket(tmp_path: Path, method: str) -> None:
    """It goes through, as its own bucket demands; the origin must not copy what is out of date there."""
    rest = '[[rules]]\npath = "other/**"\nwrite = "back"\n'
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, FENCE, rest) as rig:
        await rig.prove()
        origin.store.create_bucket("other")
        client, source, copy = rig.client(), path_of("other", "a/source"), path_of("ckpt", "a/latest")
        assert (await client.request("PUT", source, (), b"old")).status == 200
        assert (await client.request("DELETE", path_of("other", "a/none"))).status == 204
        await rig.settled()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method=method, key="a/source")
        written = await client.request(method, source, (), b"new" if method == "PUT" else b"")
        assert written.headers["x-forebay-durable"] == "local"
        await gate.reached()
        copied = rig.client().request("PUT", copy, (("x-amz-copy-source", "other/a/source"),))
        copying = TaskRegistry().spawn(copied, "copy")
        await run_loop_until(lambda: copying.done() or rig.write_back.pending.waiting > 0)
        gate.open()
        answer, stored = await copying, at_origin(origin, "a/latest")
        assert (answer.status, stored) == ((200, b"new") if method == "PUT" else (404, None))


async def test_a_batch_delete_that_goes_through_comes_after_what_is_pending(tmp_path: Path) -> None:
    """As the delete of one key: the old checkpoint must not go before the new one is there."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, FENCE) as rig:
        await rig.prove()
        for key in ("a/latest", "other"):
            origin.store.put("ckpt", key, b"old")
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/new")
        await rig.put("a/new", b"new")
        await gate.reached()
        document = b"<Delete><Object><Key>other</Key></Object><Object><Key>a/latest</Key></Object></Delete>"
        md5 = ("Content-MD5", base64.b64encode(hashlib.md5(document, usedforsecurity=False).digest()).decode())
        deleted = rig.client().request("POST", "/ckpt?delete", (md5,), document)
        deleting = TaskRegistry().spawn(deleted, "delete")
        await run_loop_until(lambda: deleting.done() or rig.write_back.pending.waiting > 0)
        assert (deleting.done(), at_origin(origin, "a/latest")) == (False, b"old")
        gate.open()
        answer = await deleting
        assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "origin")
        assert (at_origin(origin, "a/new"), at_origin(origin, "a/latest")) == (b"new", None)


@pytest.mark.parametrize("condition", ["<ETag>0</ETag>", "<Size>1</Size>", "<LastModifiedTime>0</LastModifiedTime>"])
async def test_a_batch_delete_with_a_condition_goes_through(tmp_path: Path, condition: str) -> None:
    """The origin decides about the condition of a key, and of the others of the batch with it."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        await rig.put("a/1", b"acknowledged")
        listed = f"<Object><Key>a/2</Key></Object><Object><Key>a/1</Key>{condition}</Object>"
        document = f"<Delete>{listed}</Delete>".encode()
        md5 = ("Content-MD5", base64.b64encode(hashlib.md5(document, usedforsecurity=False).digest()).decode())
        refusal = Respond(412, "PreconditionFailed")
        origin.faults.add(refusal, operation="DeleteObjects")
        answer = await rig.client().request("POST", "/ckpt?delete", (md5,), document)
        assert (answer.status, origin.log.count(operation="DeleteObjects")) == (412, 1)
        await rig.settled()
        assert at_origin(origin, "a/1") == b"acknowledged"


async def test_a_select_comes_after_what_is_pending_of_its_object(tmp_path: Path) -> None:
    """It is a POST, and a read: the origin would answer from the object as it was before."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object")
        await rig.put("a/object", b"1,2")
        await gate.reached()
        target = f"{path_of('ckpt', 'a/object')}?select&select-type=2"
        select = TaskRegistry().spawn(rig.client().request("POST", target, (), b"<Select/>"), "select")
        await run_loop_until(lambda: select.done() or rig.write_back.pending.waiting > 0)
        assert (select.done(), origin.log.count("POST", key="a/object")) == (False, 0)
        gate.open()
        await select
        assert origin.log.count("POST", key="a/object") == 1


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        ("a/copy", (("x-amz-metadata-directive", "BOGUS"),)),
        ("a/copy", (("x-amz-metadata-directive", "replace"),)),
        ("a/object", ()),
    ],
    ids=["an unknown directive", "a directive in lower case", "onto itself"],
)
async def test_a_copy_that_the_origin_may_refuse_goes_through(
    tmp_path: Path, key: str, headers: tuple[tuple[str, str], ...]
) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object", times=1)
        await rig.put("a/object", b"content")
        source = ("x-amz-copy-source", "ckpt/a/object")
        copying = TaskRegistry().spawn(rig.client().request("PUT", path_of("ckpt", key), (source, *headers)), "copy")
        await run_loop_until(lambda: copying.done() or rig.write_back.pending.waiting > 0)
        gate.open()
        assert (await copying).headers.get("x-forebay-durable") != "local"
        sent = origin.log.requests[-1].headers
        assert (sent["x-amz-copy-source"], sent.get("x-amz-metadata-directive")) == (
            "ckpt/a/object",
            headers[0][1] if headers else None,
        )
