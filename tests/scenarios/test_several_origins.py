"""Several origins behind one Forebay: each bucket has one, and what becomes of one touches no other."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from harness.clients import path_of
from harness.conformance import code, texts
from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status, metric_value, run_loop_until
from harness.oss_client import OssClient
from harness.oss_origin import OssOrigin
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig
from harness.worker_node import Node

HERE: Final = Secret("here", "here-secret", "us-east-1")
THERE: Final = Secret("there", "there-secret", "eu-west-1")
IMMUTABLE: Final = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'


def entry(origin: FakeOrigin, name: str, buckets: str, more: str = "") -> str:
    dialect = "oss" if isinstance(origin, OssOrigin) else "minio"
    secret = origin.secret
    return (
        f'[[origins]]\nname = "{name}"\nbuckets = [{buckets}]\nendpoint = "{origin.endpoint}"\n'
        f'dialect = "{dialect}"\nregion = "{secret.region}"\naccess_key = "{secret.access}"\n'
        f'secret_key = "{secret.secret}"\n{more}\n'
    )


def rig_over(here: FakeOrigin, there: FakeOrigin, directory: Path, more: str = "", **settings: Any) -> Rig:
    """`there` has the buckets that begin with `far`, `here` all others."""
    rest = entry(there, "far", '"far*"') + IMMUTABLE + more
    return Rig(here.endpoint, here.secret, directory, dialect="minio", rest=rest, **settings)


def without_default(rig: Rig) -> Rig:
    """The rig without an endpoint in [origin], so that the listed origins have all buckets that there are."""
    before, rest = rig.configuration.split("[origin]")
    origin, _, after = rest.partition("[memory]")
    kept = "".join(f"{line}\n" for line in origin.splitlines() if line.startswith("attempts"))
    rig.configuration = f"{before}[origin]\n{kept}\n[memory]{after}"
    return rig


def two_regions() -> tuple[FakeOrigin, FakeOrigin]:
    return FakeOrigin(secrets=[HERE]), FakeOrigin(secrets=[THERE])


async def test_each_bucket_is_read_and_written_at_its_origin(tmp_path: Path) -> None:
    here, there = two_regions()
    async with here, there, rig_over(here, there, tmp_path) as rig:
        here.store.put("near", "key", b"near")
        there.store.put("far-1", "key", b"far")
        client = rig.client()
        for bucket, body in (("near", b"near"), ("far-1", b"far")):
            for cache in ("miss", "hit-memory"):
                answer = await client.request("GET", path_of(bucket, "key"))
                assert (answer.body, answer.headers["x-forebay-cache"]) == (body, cache)
            assert (await client.request("PUT", path_of(bucket, "new"), body=b"new")).status == 200
            assert (await client.request("GET", path_of(bucket, "new"))).body == b"new"
            assert texts(await client.request("GET", path_of(bucket)), "Contents/Key") == ["key", "new"]
        assert {each.bucket for each in here.log.requests} <= {"near", None}
        assert {each.bucket for each in there.log.requests} <= {"far-1", None}
        assert here.log.count("GET", "GetObject") == there.log.count("GET", "GetObject") == 2


async def test_sdks_of_both_dialects_reach_origins_of_both(tmp_path: Path) -> None:
    """S3 and OSS side by side: uploads in parts, batch deletes, and ETags in the form of the client's dialect."""
    oss = OssOrigin()
    async with FakeOrigin(secrets=[HERE]) as here, oss, rig_over(here, oss, tmp_path) as rig:
        here.store.create_bucket("near")
        oss.store.create_bucket("far-1")
        boto3 = rig.boto3()
        for bucket in ("near", "far-1"):
            await asyncio.to_thread(boto3.put_object, Bucket=bucket, Key="a", Body=b"body")
            read = await asyncio.to_thread(boto3.get_object, Bucket=bucket, Key="a")
            assert await asyncio.to_thread(read["Body"].read) == b"body"
            client = OssClient(rig.endpoint, TRAINER)
            answer = await client.request("GET", path_of(bucket, "a"))
            assert (answer.body, answer.headers["ETag"]) == (b"body", answer.headers["ETag"].upper())
            unchanged = [("If-None-Match", answer.headers["ETag"])]
            assert (await client.request("GET", path_of(bucket, "a"), unchanged)).status == 304
            upload = await client.initiate(path_of(bucket, "b"))
            small = [(number, b"%d" % number * 200_000) for number in (1, 2)]
            etags = [
                (number, (await client.part(path_of(bucket, "b"), upload, number, body)).headers["ETag"])
                for number, body in small
            ]
            assert (await client.complete(path_of(bucket, "b"), upload, etags)).status == 200
            assert (await client.request("GET", path_of(bucket, "b"))).body == b"".join(body for _, body in small)
            keys = {"Objects": [{"Key": "a"}, {"Key": "b"}]}
            gone = await asyncio.to_thread(boto3.delete_objects, Bucket=bucket, Delete=keys)
            assert len(gone["Deleted"]) == 2
            assert (await client.request("GET", path_of(bucket, "a"))).status == 404
        boto3.close()


async def test_one_origin_that_is_away_leaves_the_other_alone(tmp_path: Path) -> None:
    here, there = two_regions()
    async with here, there, rig_over(here, there, tmp_path) as rig:
        here.store.put("near", "key", b"near")
        clients = {origin.client.name: origin.client for origin in rig.parts.origins}
        await there.refuse()
        for number in range(12):
            assert (await rig.client().request("GET", path_of("far-1", f"{number}"))).status == 503
        await run_loop_until(lambda: not clients["far"].breaker.admit())
        assert clients["default"].breaker.admit()
        assert (await rig.client().request("GET", path_of("near", "key"))).body == b"near"
        readiness = await rig.worker.control.readiness()
        assert set(readiness.failing) == {"origin"}
        assert readiness.failing["origin"].startswith("The origin far can't be reached")
        assert await metric_value(rig, 'forebay_origin_reachable{origin="far"}') == 0
        assert await metric_value(rig, 'forebay_origin_reachable{origin="default"}') == 1
        assert await metric_value(rig, 'forebay_origin_breaker_open{origin="far"}') == 1
        stats = await rig.worker.control.stats()
        assert [(each.name, each.state) for each in stats.origins] == [("far", "unreachable"), ("default", "reachable")]
        assert (stats.origin.state, stats.origin.requests) == (
            "unreachable",
            sum(each.requests for each in stats.origins),
        )
        await there.listen()
        await run_loop_until(clients["far"].breaker.admit)


async def test_a_refused_credential_of_one_origin_is_named(tmp_path: Path) -> None:
    here, there = two_regions()
    async with here, there, rig_over(here, there, tmp_path) as rig:
        there.secret = Secret("there", "another", "eu-west-1")
        rig.configuration = rig_over(here, there, tmp_path).configuration
        await rig.restart()
        here.store.put("near", "key", b"near")
        assert (await rig.client().request("GET", path_of("near", "key"))).status == 200
        assert (await rig.client().request("GET", path_of("far-1", "key"))).status == 503
        await rig.worker.origin_watch.check(rig.worker.control.settings)
        assert (await rig.worker.control.readiness()).failing == {
            "credential": "The origin refuses Forebay's key there: SignatureDoesNotMatch (origin far)."
        }


@pytest.mark.parametrize("ssd", [None, "256MiB"])
async def test_a_bucket_that_moves_is_not_served_of_its_old_origin(tmp_path: Path, ssd: str | None) -> None:
    """The same bucket and key, even the same ETag and size, at two origins; under a rule that never asks again."""
    here, there = two_regions()
    async with here, there:
        here.store.put("far-1", "key", b"here", etag='"same"')
        there.store.put("far-1", "key", b"ther", etag='"same"')
        rig = rig_over(here, there, tmp_path, ssd=ssd)
        with_far, moved = rig.configuration, rig.configuration.replace('"far*"', '"other"')
        target = path_of("far-1", "key")
        async with rig:
            assert (await rig.client().request("GET", target)).body == b"ther"
            rig.configuration = moved
            (tmp_path / "forebay.toml").write_text(moved)
            changed = await rig.worker.control.reload_config()
            assert changed is not None
            assert changed.needs_restart == ("origins[0].buckets",)
            assert (await rig.client().request("GET", target)).body == b"ther"  # until the restart
            await rig.restart()
            assert cache_status(await rig.client().request("GET", target)) == (200, "miss")
            assert (await rig.client().request("GET", target)).body == b"here"
            assert (await rig.worker.control.list_cached("far-1")).objects[0].cached == 4
            await rig.restart()
            assert (await rig.client().request("GET", target)).body == b"here"
            rig.configuration = with_far
            await rig.restart()
            back = await rig.client().request("GET", target)
            assert (back.body, back.headers["x-forebay-cache"]) == (b"ther", "miss" if ssd is None else "revalidated")


async def test_a_second_origin_keeps_what_was_cached_of_the_first(tmp_path: Path) -> None:
    here, there = two_regions()
    async with here, there:
        here.store.put("near", "key", b"near")
        rig = rig_over(here, there, tmp_path, ssd="256MiB")
        both = rig.configuration
        alone = rig.configuration = both.replace(entry(there, "far", '"far*"'), "")
        target = path_of("near", "key")
        async with rig:
            await rig.client().request("GET", target)
            rig.configuration = both
            await rig.restart()
            assert cache_status(await rig.client().request("GET", target)) == (200, "revalidated")
            await rig.restart()
            assert cache_status(await rig.client().request("GET", target)) == (200, "hit-ssd")
            rig.configuration = alone
            await rig.restart()
            assert cache_status(await rig.client().request("GET", target)) == (200, "revalidated")
        assert here.log.count("GET", "GetObject") == 3


async def test_a_bucket_without_an_origin_does_not_exist(tmp_path: Path) -> None:
    here, there = two_regions()
    async with here, there:
        rig = without_default(rig_over(here, there, tmp_path))
        async with rig:
            client, oss = rig.client(), OssClient(rig.endpoint, TRAINER)
            for method, body in (("GET", b""), ("PUT", b"body"), ("DELETE", b"")):
                answer = await client.request(method, path_of("near", "key"), body=body)
                assert (answer.status, code(answer), texts(answer, "BucketName")) == (404, "NoSuchBucket", ["near"])
            assert (await client.request("HEAD", path_of("near", "key"))).status == 404
            assert (await client.request("GET", path_of("near"))).status == 404
            for method in ("GET", "PUT"):
                answer = await oss.request(method, path_of("near", "key"), (), b"body" if method == "PUT" else b"")
                assert (answer.status, code(answer)) == (404, "NoSuchBucket")
            there.store.put("far-1", "key", b"far")
            assert (await client.request("GET", path_of("far-1", "key"))).body == b"far"
            explained = await rig.worker.control.explain("near", "key")
            assert (explained.origin, explained.read) == (None, "refused: no origin has this bucket (NoSuchBucket)")
        assert [each for each in here.log.requests if each.bucket] == []


async def test_a_copy_from_another_origin_is_refused(tmp_path: Path) -> None:
    here, there = two_regions()
    async with here, there, rig_over(here, there, tmp_path) as rig:
        here.store.put("near", "key", b"near")
        there.store.put("far-1", "key", b"far")
        client = rig.client()
        for source, target in (("near", "far-1"), ("far-1", "near")):
            pairs = [("x-amz-copy-source", f"/{source}/key")]
            answer = await client.request("PUT", path_of(target, "copy"), pairs)
            assert (answer.status, code(answer)) == (501, "NotImplemented")
            within = await client.request("PUT", path_of(source, "copy"), pairs)
            assert within.status == 200
            oss = OssClient(rig.endpoint, TRAINER)
            answer = await oss.request("PUT", path_of(target, "copy2"), [("x-oss-copy-source", f"/{source}/key")])
            assert (answer.status, code(answer)) == (501, "NotImplemented")
        assert not any(each.key == "copy2" for origin in (here, there) for each in origin.log.requests)


async def test_list_buckets_is_of_all_origins(tmp_path: Path) -> None:
    oss = OssOrigin()
    async with FakeOrigin(secrets=[HERE]) as here, oss, rig_over(here, oss, tmp_path) as rig:
        for name in ("near", "also", "far-9"):  # the last one is the other origin's here
            here.store.create_bucket(name)
        for name in ("far-1", "far-2", "unseen"):
            oss.store.create_bucket(name)
        client = rig.client()
        everything = ["also", "far-1", "far-2", "near"]
        assert texts(await client.request("GET", "/"), "Buckets/Bucket/Name") == everything
        first = await client.request("GET", "/?max-buckets=2")
        assert (texts(first, "Buckets/Bucket/Name"), texts(first, "ContinuationToken")) == (
            ["also", "far-1"],
            ["far-1"],
        )
        rest = await client.request("GET", "/?continuation-token=far-1")
        assert (texts(rest, "Buckets/Bucket/Name"), texts(rest, "ContinuationToken")) == (["far-2", "near"], [])
        assert texts(await client.request("GET", "/?prefix=far"), "Buckets/Bucket/Name") == ["far-1", "far-2"]
        theirs = await OssClient(rig.endpoint, TRAINER).request("GET", "/")
        assert texts(theirs, "Buckets/Bucket/Name") == everything
        oss.faults.add(actions.Respond(403, "AccessDenied"), where=lambda asked: asked.bucket is None)
        refused = await client.request("GET", "/")  # not a list that lacks the buckets of one
        assert (refused.status, code(refused)) == (403, "AccessDenied")


async def test_own_credentials_of_keys_are_for_the_origins_they_name(tmp_path: Path) -> None:
    theirs = Secret("alice-there", "alice-secret", "eu-west-1")
    alice = Secret("alice", "alice-here", "us-east-1")
    key = (
        '[[auth.keys]]\nid = "alice"\nsecret = "alice-here"\norigin_access_key = "alice-there"\n'
        'origin_secret_key = "alice-secret"\norigin_names = ["far"]\n'
        'grants = [{ path = "**", allow = ["read", "write", "list", "delete"] }]\n'
    )
    here, there = two_regions()
    there.allow(theirs)
    async with here, there, rig_over(here, there, tmp_path, key) as rig:
        here.store.put("near", "key", b"near")
        there.store.put("far-1", "key", b"far")
        client = rig.client(alice)
        for bucket, body in (("near", b"near"), ("far-1", b"far")):
            assert (await client.request("GET", path_of(bucket, "key"))).body == body
        assert texts(await client.request("GET", "/"), "Buckets/Bucket/Name") == ["far-1"]
        signed = {
            origin: {_access_key(each) for each in origin.log.requests if each.bucket} for origin in (here, there)
        }
        assert signed == {here: {"here"}, there: {"alice-there"}}


def _access_key(request: Any) -> str:
    return str(request.headers["Authorization"]).partition("Credential=")[2].partition("/")[0]


async def test_a_credential_is_changed_for_its_origin_alone(tmp_path: Path) -> None:
    here, there = two_regions()
    async with here, there, rig_over(here, there, tmp_path) as rig:
        there.store.put("far-1", "key", b"far")
        renewed = Secret("renewed", "renewed-secret", "eu-west-1")
        there.allow(renewed)
        before = [origin.client.credentials for origin in rig.parts.origins]
        text = rig.configuration.replace('"there"', '"renewed"').replace("there-secret", "renewed-secret")
        assert (await rig.worker.control.replace_config(text)).needs_restart == ()
        after = [origin.client.credentials for origin in rig.parts.origins]
        assert (after[0] is before[0], after[1] is before[1]) == (False, True)
        assert (await rig.client().request("GET", path_of("far-1", "key"))).body == b"far"
        assert _access_key(there.log.matching("GET", "GetObject")[0]) == "renewed"


async def test_several_workers_agree_on_the_origin_of_a_bucket(tmp_path: Path) -> None:
    """A start costs two processes their imports, so one node goes through all of it: reads through owners, writes, a
    bucket without an origin, and a worker that starts after the configuration has changed."""
    here, there = two_regions()
    async with here, there:
        here.store.put("far-1", "key", b"wrong")
        rest = entry(there, "far", '"far*"') + IMMUTABLE
        node = Node(here, tmp_path, dialect="minio", rest=rest, ssd="256MiB")
        node.configure(node.configuration.replace(f'endpoint = "{here.endpoint}"', f'endpoint = "{here.endpoint}"'))
        async with node:
            here.store.create_bucket("near")
            keys = [node.key_owned_by(owner, "far-1") for owner in (0, 1)]
            for key in keys:
                there.store.put("far-1", key, b"far")
                here.store.put("far-1", key, b"not this")
                for worker in (0, 1):
                    assert (await node.client(worker).request("GET", path_of("far-1", key))).body == b"far"
            assert there.log.count("GET", "GetObject") == 2
            for worker in (0, 1):
                assert (await node.client(worker).request("PUT", path_of("far-1", keys[0]), body=b"new")).status == 200
                for other in (0, 1):
                    assert (await node.client(other).request("GET", path_of("far-1", keys[0]))).body == b"new"
            # The buckets are another origin's in the file, which is for the next start of the node.
            node.configure(node.configuration.replace('"far*"', '"other"'))
            await node.supervisor.reload()
            process = await node.kill_worker(1)
            await node.wait_restarted(1, process)
            for worker in (0, 1):
                answer = await node.client(worker).request("GET", path_of("far-1", keys[1]))
                assert (answer.status, answer.body) == (200, b"far")
        assert here.log.count("GET", "GetObject") == 0


async def test_several_workers_know_no_bucket_without_an_origin(tmp_path: Path) -> None:
    here, there = two_regions()
    async with here, there:
        rig = without_default(rig_over(here, there, tmp_path))
        node = Node(here, tmp_path)
        node.configure(rig.configuration)
        async with node:
            for owner in (0, 1):
                key = node.key_owned_by(owner, "near")
                for worker in (0, 1):
                    answer = await node.client(worker).request("GET", path_of("near", key))
                    assert (answer.status, code(answer)) == (404, "NoSuchBucket")
