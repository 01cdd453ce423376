"""Forebay's own resources through a whole worker: both dialects, both lanes, and nothing of it at the origin."""

import asyncio
from pathlib import Path
from urllib.parse import unquote

import pytest
from botocore.exceptions import ClientError

from forebay.request.resource import ResourceKind
from harness.clients import path_of, query_of
from harness.fake_origin import FakeOrigin
from harness.memory_resource import MemoryResource, rig_with_notes
from harness.oss_client import OssClient, told
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

KEY = ".forebay/notes/a"
PATH = path_of("open", KEY)
NOBODY = '[[auth.keys]]\nid = "elsewhere"\nsecret = "s"\ngrants = [{ path = "other/**", allow = ["read", "write"] }]\n'
ELSEWHERE = Secret("elsewhere", "s")
COPY = (("x-amz-copy-source", f"/open/{KEY}"),)


async def test_boto3_sends_reads_lists_and_removes(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        client = rig.boto3()

        def dialogue() -> None:
            sent = client.put_object(Bucket="open", Key=KEY, Body=b"0123456789")
            assert sent["ResponseMetadata"]["HTTPHeaders"]["x-forebay-kept"] == "1"
            found = client.get_object(Bucket="open", Key=KEY)
            assert (found["Body"].read(), found["ETag"]) == (b"0123456789", sent["ETag"])
            assert found["ContentType"] == "text/plain"
            head = client.head_object(Bucket="open", Key=KEY)
            assert (head["ContentLength"], head["ETag"]) == (10, sent["ETag"])
            part = client.get_object(Bucket="open", Key=KEY, Range="bytes=2-4", IfMatch=sent["ETag"])
            assert (part["Body"].read(), part["ContentRange"]) == (b"234", "bytes 2-4/10")
            listed = client.list_objects_v2(Bucket="open", Prefix=".forebay/notes/", Delimiter="/")
            assert [(each["Key"], each["Size"]) for each in listed["Contents"]] == [(KEY, 10)]
            client.delete_object(Bucket="open", Key=KEY)
            assert client.list_objects(Bucket="open", Prefix=".forebay/").get("Contents", []) == []
            with pytest.raises(ClientError, match="NoSuchKey"):
                client.get_object(Bucket="open", Key=KEY)

        await asyncio.to_thread(dialogue)
        client.close()


async def test_an_oss_client_sends_reads_lists_and_removes(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        client = OssClient(rig.endpoint, TRAINER)
        assert (await client.request("PUT", PATH, (), b"body")).status == 200
        assert (await client.request("GET", PATH)).body == b"body"
        assert (await client.request("HEAD", f"{PATH}?objectMeta")).headers["Content-Length"] == "4"
        for query in ("prefix=.forebay%2F", "list-type=2&prefix=.forebay%2Fnotes%2F&encoding-type=url"):
            listed = await client.request("GET", f"/open?{query}")
            assert (unquote(told(listed, "Key")), told(listed, "Size")) == (KEY, "4"), listed.body
        assert (await client.chunked("PUT", PATH, [b"without ", b"a length"])).status == 200
        assert (await client.request("GET", PATH)).body == b"without a length"
        assert (await client.request("DELETE", PATH)).status == 204
        gone = await client.request("GET", PATH)
        assert (gone.status, told(gone, "Code")) == (404, "NoSuchKey")


async def test_a_range_of_a_file_is_read(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        path = path_of("open", ".forebay/notes/a.file")
        await rig.client().request("PUT", path, (), b"0123456789")
        answer = await rig.client().request("GET", path, [("Range", "bytes=3-")])
        assert (answer.status, answer.body) == (206, b"3456789")
        assert (await rig.client().request("GET", path, [("Range", "bytes=10-")])).status == 416
        repeated = await rig.client().request("GET", path, [("If-None-Match", answer.headers["ETag"])])
        assert repeated.status == 304


async def test_an_unknown_kind_is_refused_by_name(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        answer = await rig.client().request("PUT", path_of("open", ".forebay/none/a"), (), b"body")
        assert (answer.status, b".forebay/notes/" in answer.body) == (400, True)


async def test_a_condition_keeps_what_is_there(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        client, absent = rig.client(), (("If-None-Match", "*"),)
        assert (await client.request("PUT", PATH, absent, b"first")).status == 200
        assert (await client.request("PUT", PATH, absent, b"second")).status == 412
        refused = await client.request("PUT", PATH, (("If-Match", '"other"'),), b"second")
        assert (refused.status, b"NotImplemented" in refused.body) == (501, True)
        assert (await client.request("GET", PATH)).body == b"first"
        other = await client.request("GET", PATH, (("If-Match", '"other"'),))
        assert (other.status, b"first" in other.body) == (412, False)


async def test_a_listing_above_shows_no_resource(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("open", "open/object", b"object")
        rig.parts.requests.gateway.resources.kinds["notes"] = MemoryResource().kind
        await rig.client().request("PUT", PATH, (), b"body")
        for query in ({}, {"prefix": "."}, {"list-type": "2", "delimiter": "/"}):
            listed = await rig.client().request("GET", f"/open?{query_of(query)}")
            assert (listed.status, b".forebay" in listed.body) == (200, False)


async def test_what_a_kind_does_not_do_is_refused_with_its_reason(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        rig.parts.requests.gateway.resources.kinds["sealed"] = ResourceKind(None, "Not sent.", "Not removed.")
        client, path = rig.client(), path_of("open", ".forebay/sealed/a")
        for method, query, reason in (
            ("PUT", "", b"Not sent."),
            ("POST", "?uploads", b"Not sent."),
            ("PUT", "?partNumber=1&uploadId=u", b"Not sent."),
            ("POST", "?uploadId=u", b"Not sent."),
            ("DELETE", "", b"Not removed."),
        ):
            refused = await client.request(method, path + query, (), b"body" if method != "DELETE" else b"")
            assert (refused.status, b"MethodNotAllowed" in refused.body, reason in refused.body) == (405, True, True)
        assert (await client.request("GET", path)).status == 404
        listed = await client.request("GET", f"/open?{query_of({'prefix': '.forebay/'})}")
        assert (listed.status, b"sealed/" in listed.body) == (200, False)
        unknown = await client.request("PUT", path_of("open", ".forebay/none/a"), (), b"body")
        assert (unknown.status, b".forebay/notes/" in unknown.body, b"sealed" in unknown.body) == (400, True, False)


async def test_resources_are_their_owners_alone(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        await rig.client(TRAINER).request("PUT", PATH, (), b"trainer's")
        reader = rig.client(READER)
        assert (await reader.request("GET", PATH)).status == 404
        assert b"<Key>" not in (await reader.request("GET", "/open?prefix=.forebay%2F")).body
        assert (await reader.request("PUT", PATH, (), b"reader's")).status == 200, "read alone is enough"
        assert (await reader.request("DELETE", PATH)).status == 204
        assert (await rig.client(TRAINER).request("GET", PATH)).body == b"trainer's"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
async def test_who_may_read_nothing_in_the_bucket_is_denied(tmp_path: Path, method: str) -> None:
    async with rig_with_notes(tmp_path, rest=NOBODY) as (_, rig):
        answer = await rig.client(ELSEWHERE).request(method, PATH)
        assert (answer.status, method == "HEAD" or b"AccessDenied" in answer.body) == (403, True)
        assert (await rig.client(ELSEWHERE).request("GET", "/open?prefix=.forebay%2F")).status == 403
        assert (await rig.client().unsigned(method, PATH)).status == 403


async def test_anonymous_clients_have_no_resources(tmp_path: Path) -> None:
    anonymous = '[auth.anonymous]\ngrants = [{ path = "open/**", allow = ["read", "write", "list", "delete"] }]\n'
    async with rig_with_notes(tmp_path, rest=anonymous) as (_, rig):
        for method in ("GET", "PUT", "DELETE"):
            assert (await rig.client().unsigned(method, PATH)).status == 403


@pytest.mark.parametrize(
    ("method", "target", "headers", "body"),
    [
        ("PUT", f"{PATH}?partNumber=1&uploadId=u", COPY, b""),
        ("PUT", f"{PATH}?tagging", (), b"<Tagging/>"),
        ("GET", f"{PATH}?acl", (), b""),
        ("GET", f"{PATH}?versionId=v", (), b""),
        ("PUT", path_of("open", "open/copy"), COPY, b""),
        ("PUT", PATH, (("x-amz-copy-source", "/open/open/object"),), b""),
        ("GET", "/open?uploads&prefix=.forebay%2F", (), b""),
        ("GET", "/open?versions&prefix=.forebay%2F", (), b""),
    ],
)
async def test_any_other_operation_is_refused(
    tmp_path: Path, method: str, target: str, headers: tuple[tuple[str, str], ...], body: bytes
) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        answer = await rig.client().request(method, target, headers, body)
        assert (answer.status, b"NotImplemented" in answer.body) == (501, True), answer.body


async def test_a_refusal_names_what_can_be_sent(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        answer = await rig.client().request("PUT", path_of("open", ".forebay/nothing/a"), (), b"")
        assert answer.status == 400
        assert b".forebay/plans/, .forebay/recordings/" in answer.body
        assert b".forebay/datasets/" not in answer.body, "nobody can send a data set"
