"""What real clients send that is odd, and that S3 takes: through both lanes, over a socket."""

from hashlib import sha256
from pathlib import Path

import pytest

from harness.aws_chunked import Framing
from harness.clients import RawClient, RawRequest
from harness.fake_origin import FakeOrigin
from harness.inspection import error_code
from harness.raw_connection import head_bytes
from harness.reference_sigv4 import UNSIGNED_CHUNKS_TRAILER
from harness.rig import TRAINER, Rig

TARGET = "/bucket/key"
BODY = b"the body"
DOMAINS = 'domains = ["forebay.internal"]'


async def test_a_whole_url_as_the_target(tmp_path: Path) -> None:
    """RFC 9112 section 3.2.2: a server must take it."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        client = rig.client()
        asked = client.sign("GET", TARGET)
        whole = RawRequest("GET", f"{rig.endpoint}{TARGET}", asked.pairs)
        for _ in range(2):
            assert (await client.send(whole)).body == BODY


async def test_port_twice_in_host(tmp_path: Path) -> None:
    """boto 2 with Signature Version 4, and a port that is not the scheme's own."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, server=DOMAINS) as rig:
        origin.store.put("bucket", "key", BODY)
        port = rig.worker.address[1]
        client = RawClient(rig.endpoint, TRAINER, host=f"127.0.0.1:{port}:{port}")
        for _ in range(2):
            assert (await client.request("GET", TARGET)).body == BODY


@pytest.mark.parametrize("behind", [b"0123456789", b"\xff\x00\r\n\r\n"])
async def test_an_upload_is_carried_out_whatever_follows_it(tmp_path: Path, behind: bytes) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        async with await client.open() as connection:
            await connection.send(client.sign("PUT", TARGET, (), BODY).wire + behind)
            assert (await connection.answer("PUT")).status == 200
        assert origin.store.get("bucket", "key").size == len(BODY)


@pytest.mark.parametrize("target", [TARGET, f"{TARGET}?partNumber=1&uploadId=u"])
async def test_an_upload_that_does_not_say_how_long_it_is(tmp_path: Path, target: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        asked = client.sign("PUT", target, (), BODY)
        pairs = [pair for pair in asked.pairs if pair[0].lower() != "content-length"]
        async with await client.open() as connection:
            await connection.send(head_bytes("PUT", target, pairs) + BODY)
            answer = await connection.answer("PUT")
        assert (answer.status, error_code(answer)) == (411, "MissingContentLength")
        assert origin.store.current("bucket", "key") is None


@pytest.mark.parametrize("target", [TARGET, f"{TARGET}?acl", "/bucket"])
async def test_body_headers_of_a_read_are_ignored(tmp_path: Path, target: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)

        for method in ("GET", "HEAD") if "?" not in target else ("GET",):
            for _ in range(2):
                answer = await rig.client().request(method, target, payload=sha256(b"another").hexdigest())
                assert answer.status == 200


@pytest.mark.parametrize("target", [TARGET, "/bucket", "/"])
async def test_a_signed_hash_that_is_none_is_refused_to_reads_too(tmp_path: Path, target: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        await rig.client().request("GET", TARGET)
        for method in ("GET", "HEAD"):
            answer = await rig.client().request(method, target, payload="unsigned-payload")
            assert (answer.status, method == "HEAD" or error_code(answer)) == (
                400,
                method == "HEAD" or "InvalidArgument",
            )


async def test_every_answer_names_its_host_and_request(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        client = rig.client()
        answers = [await client.request("GET", target) for target in (TARGET, TARGET, "/bucket/absent", "/bucket?x-id")]
        answers += [await client.request("PUT", TARGET, (("content-md5", "x"),), BODY)]
        for answer in answers:
            assert answer.headers["x-amz-request-id"]
            assert answer.headers["x-amz-id-2"]


async def test_preflight_response_is_equal_for_all_clients(tmp_path: Path) -> None:
    asked = (("Origin", "http://a.example"), ("Access-Control-Request-Method", "GET"))
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        client = rig.client()
        url = client.presign("GET", TARGET).removeprefix(rig.endpoint)
        for target in (TARGET, url, "/bucket/none", "/none"):
            answers = [await client.unsigned("OPTIONS", target, headers) for headers in ((), asked[:1], asked)]
            answers += [await client.request("OPTIONS", TARGET, asked)]
            told = [(answer.status, error_code(answer)) for answer in answers]
            assert told == [(400, "BadRequest"), (400, "BadRequest"), *[(403, "AccessForbidden")] * 2]
            assert not any(name.lower().startswith("access-control-") for each in answers for name, _ in each.pairs)
        assert [seen for seen in origin.log.requests if seen.bucket is not None] == []
        assert (await client.unsigned("GET", url)).body == BODY


async def test_a_body_that_is_wrong_from_its_start_costs_the_origin_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        tiny = Framing(UNSIGNED_CHUNKS_TRAILER, size=1)
        answer = await rig.client().request("PUT", TARGET, (), bytes(2000), framing=tiny)
        assert (answer.status, error_code(answer)) == (403, "InvalidChunkSizeError")
        answer = await rig.client().request("POST", "/bucket?delete", (), b"<a>" * 100_000)
        assert (answer.status, error_code(answer)) == (400, "MalformedXML")
        assert [seen for seen in origin.log.requests if seen.bucket is not None] == []
