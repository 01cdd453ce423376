"""Nothing is acknowledged that the origin would refuse, and nothing waits for the proof of it."""

import asyncio
from base64 import b64encode
from hashlib import md5
from pathlib import Path

import pytest

from forebay.origin.credentials import StaticCredentials
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.write.back.accept.write_proofs import WriteProof
from harness.clients import path_of
from harness.fake.actions import Action, Drop, HoldRequest, LoseAnswer, Respond
from harness.fake.gate import Gate
from harness.fake.s3_request import S3Request
from harness.fake_origin import DEFAULT_SECRET, FakeOrigin
from harness.inspection import run_loop_until
from harness.oss_origin import OssOrigin
from harness.reference_sigv4 import Secret
from harness.write_back_rig import WriteBackRig, at_origin


async def test_after_a_restart_no_writer_waits_for_the_backlog(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        await rig.put("a/one", b"1")
        await rig.restart()
        origin.log.reset()
        for key in ("a/two", "a/three"):
            await rig.put(key, b"2")
        deleted = await rig.client().request("DELETE", path_of("ckpt", "a/two"))
        assert (deleted.status, deleted.headers["x-forebay-durable"]) == (204, "local")
        for operation in ("CreateMultipartUpload", "GetBucketVersioning"):
            assert origin.log.count(operation=operation) == 1
        assert at_origin(origin, "a/one") is None
        origin.faults.remove(refusal)
        await rig.settled()
        assert (at_origin(origin, "a/three"), at_origin(origin, "a/two")) == (b"2", None)
        assert origin.store.bucket("ckpt").uploads == {}


@pytest.mark.parametrize("silent", ["GetBucketVersioning", "CreateMultipartUpload"])
async def test_a_silent_origin_is_not_waited_for(tmp_path: Path, silent: str) -> None:
    """A first write is refused long before boto3 gives up (60 s), and nothing of it is at the origin. What is proven by
    then is accepted."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, asyncio.timeout(40):
        origin.store.create_bucket("ckpt")
        hold = origin.faults.add(HoldRequest(gate := Gate()), operation=silent)
        origin.faults.add(HoldRequest(gate), operation="PutObject")
        rig.write_back.probe.wait_seconds = 0.2
        refused = await rig.client().request("PUT", path_of("ckpt", "a/first"), (), b"x")
        assert (refused.status, b"<Code>ServiceUnavailable</Code>" in refused.body) == (503, True)
        assert b"no answer in time" in refused.body
        # The same silence is not waited for twice.
        rig.write_back.probe.wait_seconds = 0.0
        assert (await rig.client().request("PUT", path_of("ckpt", "a/second"), (), b"x")).status == 503
        assert origin.log.count(operation="PutObject") == 0
        assert origin.log.count(operation=silent) == 1
        origin.faults.remove(hold)
        gate.open()
        await run_loop_until(lambda: rig.write_back.proofs.covers(WriteProof("put", "ckpt/a")))
        await rig.put("a/first", b"y")


async def test_writes_of_a_versioned_bucket_go_through(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        origin.store.create_bucket("ckpt").versioning = "Enabled"
        for method, status in (("PUT", 200), ("DELETE", 204), ("PUT", 200)):
            answer = await rig.client().request(method, path_of("ckpt", "a/object"), (), b"x" if status == 200 else b"")
            assert (answer.status, answer.headers["x-forebay-durable"]) == (status, "origin")
            assert answer.headers["x-amz-version-id"]
        assert len(origin.store.bucket("ckpt").versions["a/object"]) == 3
        assert origin.log.count(operation="CreateMultipartUpload") == 0


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_bucket_may_begin_to_keep_versions(tmp_path: Path, method: str) -> None:
    """The answer to a write that had been acknowledged shows it."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.bucket("ckpt").versioning = "Enabled"
        answer = await rig.client().request(method, path_of("ckpt", "a/object"))
        assert answer.headers["x-forebay-durable"] == "local"
        await rig.settled()
        answer = await rig.client().request("PUT", path_of("ckpt", "a/object"), (), b"x")
        assert (answer.headers["x-forebay-durable"], "x-amz-version-id" in answer.headers) == ("origin", True)


async def test_a_change_of_a_bucket_ends_its_proofs(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        await rig.put("a/object", b"one")
        document = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        assert (await rig.client().request("PUT", "/ckpt?versioning", (), document)).status == 200
        answer = await rig.client().request("PUT", path_of("ckpt", "a/object"), (), b"two")
        assert (answer.headers["x-forebay-durable"], "x-amz-version-id" in answer.headers) == ("origin", True)


async def test_writes_of_a_bucket_with_kms_go_through(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        origin.store.create_bucket("ckpt").encryption = "aws:kms"
        for _ in range(3):
            sent = await rig.client().request("PUT", path_of("ckpt", "a/object"), (), b"x")
            assert (sent.status, sent.headers["x-forebay-durable"]) == (200, "origin")
            assert sent.headers["ETag"] == origin.store.get("ckpt", "a/object").etag


async def test_a_bucket_may_begin_to_encrypt_while_writes_are_pending(tmp_path: Path) -> None:
    """They get the ETags that the origin gives them; what comes later goes through."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        acknowledged = await rig.put("a/object", b"x")
        path = path_of("ckpt", "a/upload")
        created = await rig.client().request("POST", path + "?uploads")
        upload = created.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
        part = await rig.client().request("PUT", f"{path}?partNumber=1&uploadId={upload}", (), b"part")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        assert (await rig.client().request("POST", f"{path}?uploadId={upload}", (), document)).status == 200
        origin.store.bucket("ckpt").encryption = "aws:kms"
        origin.faults.remove(refusal)
        await rig.settled()
        assert (at_origin(origin, "a/object"), at_origin(origin, "a/upload")) == (b"x", b"part")
        read = await rig.client().request("GET", path_of("ckpt", "a/object"))
        assert (read.body, read.headers["ETag"]) == (b"x", origin.store.get("ckpt", "a/object").etag)
        assert read.headers["ETag"] != acknowledged
        await _assert_names_nothing(rig, acknowledged)
        sent = await rig.client().request("PUT", path_of("ckpt", "a/later"), (), b"y")
        assert (sent.status, sent.headers["x-forebay-durable"]) == (200, "origin")


async def _assert_names_nothing(rig: WriteBackRig, etag: str) -> None:
    """A condition on the ETag that was acknowledged fails as after any other change, in every kind of request."""
    path, copied = path_of("ckpt", "a/object"), path_of("ckpt", "a/copy")
    source = ("x-amz-copy-source", "ckpt/a/object")
    for method, target, headers, status in (
        ("GET", path, (("If-Match", etag),), 412),
        ("HEAD", path, (("If-Match", etag),), 412),
        ("GET", path, (("If-None-Match", etag),), 200),
        ("GET", path, (("If-Range", etag), ("Range", "bytes=0-0")), 200),
        ("PUT", path, (("If-Match", etag),), 412),
        ("PUT", copied, (source, ("x-amz-copy-source-if-match", etag)), 412),
    ):
        answer = await rig.client().request(method, target, headers)
        assert answer.status == status, (method, target, headers)
    assert at_origin(rig.origin, "a/object") == b"x"


@pytest.mark.parametrize("operation", ["CreateMultipartUpload", "GetBucketVersioning"])
async def test_a_refused_probe_has_the_write_go_through(tmp_path: Path, operation: str) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        origin.store.create_bucket("ckpt")
        origin.faults.add(Respond(403, "AccessDenied"), operation=operation)
        sent = await rig.client().request("PUT", path_of("ckpt", "a/object"), (), b"x")
        assert (sent.status, sent.headers["x-forebay-durable"]) == (200, "origin")
        await rig.put("a/next", b"that has proven it")
        origin.faults.add(Respond(403, "AccessDenied"), method="DELETE")
        refused = await rig.client().request("DELETE", path_of("ckpt", "a/object"))
        assert (refused.status, b"AccessDenied" in refused.body) == (403, True)


@pytest.mark.parametrize("failure", [Respond(503, "SlowDown"), Drop(), LoseAnswer()], ids=["503", "drop", "lost"])
async def test_a_probe_leaves_no_upload_where_its_abort_fails(
    tmp_path: Path, failure: Action, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        origin.store.create_bucket("ckpt")
        origin.faults.add(failure, operation="AbortMultipartUpload", times=2)
        await rig.put("a/object", b"x")
        await rig.settled()
        assert origin.store.bucket("ckpt").uploads == {}
        assert "which was a probe, can't be aborted" not in caplog.text


def _is_below_b(asked: S3Request) -> bool:
    return (asked.key or "").startswith("b/")


async def test_a_batch_delete_is_acknowledged_only_if_all_of_it_is_proven(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        listed = [{"Key": "a/1"}, {"Key": "b/1"}]
        for each in listed:
            origin.store.put("ckpt", each["Key"], b"x")
        origin.faults.add(Respond(403, "AccessDenied"), method="DELETE", where=_is_below_b)
        client = rig.boto3()
        answer = await asyncio.to_thread(lambda: client.delete_objects(Bucket="ckpt", Delete={"Objects": listed}))
        assert answer["ResponseMetadata"]["HTTPHeaders"].get("x-forebay-durable") != "local"
        assert origin.log.count(operation="DeleteObjects") == 1


async def test_a_missing_bucket_is_seen_by_the_first_writer(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        refused = await rig.client().request("PUT", path_of("ckpt", "a/object"), (), b"x")
        assert (refused.status, b"NoSuchBucket" in refused.body) == (404, True)


async def test_a_refusal_while_persisting_ends_the_proof(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(Respond(403, "AccessDenied"), method="PUT")
        proof = WriteProof("put", "ckpt/a")
        assert rig.write_back.proofs.covers(proof)
        await rig.put("a/stuck", b"x")
        await rig.wait_idle()
        assert rig.write_back.backlog.stuck == 1
        assert not rig.write_back.proofs.covers(proof)


@pytest.mark.parametrize(("status", "is_proven"), [(403, False), (404, True)])
async def test_a_refused_copy_ends_the_proof_but_for_its_source(tmp_path: Path, status: int, is_proven: bool) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(Respond(status, "AccessDenied" if status == 403 else "NoSuchKey"), operation="CopyObject")
        source = ("x-amz-copy-source", "/ckpt/a/at-the-origin")
        assert (await rig.client().request("PUT", path_of("ckpt", "a/copy"), (source,))).status == status
        assert rig.write_back.proofs.covers(WriteProof("put", "ckpt/a")) == is_proven


async def test_a_fenced_key_is_acknowledged_once_the_bucket_has_all(tmp_path: Path) -> None:
    rule = 'fence = ["**/.metadata", "**/latest*"]\n'
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rule=rule) as rig:
        await rig.prove()
        for step in range(3):
            for nth in range(3):
                await rig.put(f"a/{step}/{nth}", b"%d" % step)
            for key in (f"a/{step}/.metadata", f"a/latest-{step}"):
                fenced = await rig.client().request("PUT", path_of("ckpt", key), (), b"all")
                assert (fenced.status, fenced.headers["x-forebay-durable"]) == (200, "origin")
                assert [at_origin(origin, f"a/{step}/{nth}") for nth in range(3)] == [b"%d" % step] * 3
                assert at_origin(origin, key) == b"all"
        await rig.put("a/metadata", b"not fenced")


async def test_a_fenced_upload_of_any_size_is_the_origins(tmp_path: Path) -> None:
    rule = 'fence = ["**/.metadata"]\n'
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rule=rule) as rig:
        await rig.prove()
        path = path_of("ckpt", "a/.metadata")
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT", key="a/shard")
        await rig.put("a/shard", b"x")
        created = await rig.client().request("POST", path + "?uploads")
        upload = created.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
        part = await rig.client().request("PUT", f"{path}?partNumber=1&uploadId={upload}", (), b"all")
        assert part.status == 200, "what nobody sees does not wait"
        origin.faults.remove(refusal)
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        completed = await rig.client().request("POST", f"{path}?uploadId={upload}", (), document)
        assert (completed.status, completed.headers["x-forebay-durable"]) == (200, "origin")
        assert (at_origin(origin, "a/shard"), at_origin(origin, "a/.metadata")) == (b"x", b"all")


async def test_a_read_says_where_the_object_is_durable(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        await rig.put("a/one", b"1")
        source = ("x-amz-copy-source", "/ckpt/a/one")
        copied = await rig.client().request("PUT", path_of("ckpt", "a/two"), (source,))
        assert copied.headers["x-forebay-durable"] == "local"
        for method in ("GET", "HEAD", "GET"):
            for key in ("a/one", "a/two"):
                read = await rig.client().request(method, path_of("ckpt", key))
                assert read.headers.getall("x-forebay-durable") == ["local"]
        origin.faults.remove(refusal)
        await rig.settled()
        for key in ("a/one", "a/two"):
            read = await rig.client().request("GET", path_of("ckpt", key))
            assert (read.body, "x-forebay-durable" in read.headers) == (b"1", False)


class _EndingCredentials(StaticCredentials):
    """Temporary ones, which could not be refreshed."""

    def ends_within(self, seconds: float) -> bool:
        return seconds >= 120


async def test_nothing_is_acknowledged_near_the_end_of_a_credential(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, secret = rig.parts.origins.of("ckpt"), origin.secret
        key = SecretKey(secret.access, secret.secret)
        client.use_credentials(_EndingCredentials(key))
        for method, body in (("PUT", b"x"), ("DELETE", b"")):
            answer = await rig.client().request(method, path_of("ckpt", "a/object"), (), body)
            assert answer.headers["x-forebay-durable"] == "origin"
        client.use_credentials(StaticCredentials(key))
        await rig.put("a/object", b"x")


async def test_a_reload_of_the_credential_ends_all_proofs(tmp_path: Path) -> None:
    other = Secret("other", "other-secret")
    async with FakeOrigin(secrets=(DEFAULT_SECRET, other)) as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        proof = WriteProof("put", "ckpt/a")
        assert rig.write_back.proofs.covers(proof)
        await rig.worker.control.reload_config()
        assert rig.write_back.proofs.covers(proof), "the same credential"
        before, after = (f'access_key = "{each.access}"' for each in (DEFAULT_SECRET, other))
        text = rig.configuration.replace(before, after).replace(DEFAULT_SECRET.secret, other.secret)
        (tmp_path / "rig" / "forebay.toml").write_text(text)
        origin.faults.add(Respond(403, "AccessDenied"), operation="CreateMultipartUpload")
        await rig.worker.control.reload_config()
        assert not rig.write_back.proofs.covers(proof)
        answer = await rig.client().request("PUT", path_of("ckpt", "a/object"), (), b"x")
        assert answer.headers["x-forebay-durable"] == "origin"


async def test_a_refused_credential_acknowledges_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(403, "InvalidAccessKeyId"))
        assert await rig.parts.origins.of("ckpt").credential_check.check() == "refused"
        assert (await rig.client().request("PUT", path_of("ckpt", "a/object"), (), b"x")).status == 503
        origin.faults.remove(refusal)
        assert len(rig.write_back.pending) == 0


async def test_a_key_that_an_origin_refuses_holds_up_nothing(tmp_path: Path) -> None:
    """S3 takes 1,024 bytes, OSS 1,023. Its client is told, and not the operator."""
    async with OssOrigin() as origin, WriteBackRig(origin, tmp_path, dialect="oss") as rig:
        await rig.prove()
        path = path_of("ckpt", f"a/{'k' * 1022}")
        for method, query in (("PUT", ""), ("POST", "?uploads"), ("DELETE", "")):
            refused = await rig.client().request(method, f"{path}{query}", (), b"")
            assert refused.status == 400, method
        batch = b"<Delete><Object><Key>a/b//c</Key></Object><Object><Key>a/d</Key></Object></Delete>"
        digest = b64encode(md5(batch, usedforsecurity=False).digest()).decode()
        deleted = await rig.client().request("POST", "/ckpt?delete", (("Content-MD5", digest),), batch)
        assert (deleted.status, deleted.headers.get("x-forebay-durable")) == (200, "origin")
        await rig.put("a/after", b"x")
        await rig.settled()
        assert at_origin(origin, "a/after") == b"x"
