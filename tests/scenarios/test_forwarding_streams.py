"""Streaming of forwarded requests: bodies are not buffered, truncation is always visible, and late outcomes are
respected."""

import asyncio
import hashlib
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from forebay.request.authentication import Keyring
from forebay.server.gateway_policy import EVERYBODY
from harness.clients import UNSIGNED_PAYLOAD, RawClient, path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import DEFAULT_SECRET, FakeOrigin
from harness.memory_exchange import DisconnectedReply, handle_request
from harness.raw_connection import head_bytes
from harness.rig import Rig

MIB = 1 << 20
PASSED_ON = '[[rules]]\npath = "**"\naccelerate = false\n'
FOREVER = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
COMPLETE = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag></Part></CompleteMultipartUpload>"
DECLARATION = b'<?xml version="1.0" encoding="UTF-8"?>'


class Sink:
    """An origin that takes any upload and keeps nothing but its hash."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.received = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        async for piece in request.content.iter_any():
            self.digest.update(piece)
            self.received += len(piece)
        return web.Response(headers={"ETag": '"sunk"'})


async def test_an_upload_of_256_mib_goes_through_in_little_memory(tmp_path: Path) -> None:
    sink = Sink()
    server = web.Server(sink.handle, access_log=None)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    piece, expected = bytes(range(256)) * 4096, hashlib.sha256()
    async with Rig(endpoint, DEFAULT_SECRET, tmp_path) as rig:
        client = rig.client()
        length = ("Content-Length", str(256 * len(piece)))
        request = client.sign("PUT", "/bucket/key", payload=UNSIGNED_PAYLOAD)
        pairs = [length if name == "Content-Length" else (name, value) for name, value in request.pairs]
        async with await client.open() as connection:
            tracemalloc.start()
            try:
                await connection.send(head_bytes("PUT", "/bucket/key", pairs))
                for _ in range(256):
                    await connection.send(piece)
                    expected.update(piece)
                answer = await connection.answer()
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    listener.close()
    await server.shutdown(0.001)
    assert (answer.status, answer.headers["ETag"], sink.received) == (200, '"sunk"', 256 * MIB)
    assert sink.digest.digest() == expected.digest()
    assert peak < 16 * MIB


async def test_a_download_of_256_mib_goes_through_in_little_memory(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=PASSED_ON) as rig:
        content = origin.store.put_synthetic("bucket", "key", 256 * MIB)
        client = rig.client()
        async with await client.open() as connection:
            await connection.send(client.sign("GET", "/bucket/key").wire)
            assert (await connection.read_head()).headers["Content-Length"] == str(256 * MIB)
            tracemalloc.start()
            try:
                for number, view in enumerate(content.views(0, 256 * MIB)):
                    assert await connection.read(MIB) == view, f"MiB {number}"
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert peak < 16 * MIB


async def test_an_upload_is_on_its_way_before_it_has_come(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client, body = rig.client(), b"0123456789" * 200_000
        request = client.sign("PUT", "/bucket/key", body=body)
        head = head_bytes(request.method, request.target, request.pairs)
        async with await client.open() as connection:
            await connection.send(head + body[:1_500_000])
            await origin.log.wait_for(1, "PUT")
            await connection.send(body[1_500_000:])
            assert (await connection.answer()).status == 200


@pytest.mark.parametrize("sent", [0, 1, 150_000, 1_500_000, 1_999_999])
async def test_a_client_that_leaves_in_an_upload_leaves_nothing(tmp_path: Path, sent: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=FOREVER) as rig:
        origin.store.put("bucket", "key", b"old")
        client, body = rig.client(), b"0123456789" * 200_000
        assert (await client.request("GET", "/bucket/key")).body == b"old"
        request = client.sign("PUT", "/bucket/key", body=body)
        connection = await client.open()
        await connection.send(head_bytes(request.method, request.target, request.pairs) + body[:sent])
        if sent > 1_000_000:
            await origin.log.wait_for(1, "PUT")
        connection.reset()
        await rig.wait_idle()
        await origin.log.wait_idle()
        assert (await client.request("GET", "/bucket/key")).body == b"old"
        assert origin.store.get("bucket", "key").size == 3


async def test_a_client_that_leaves_in_a_download_ends_it_at_the_origin(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=PASSED_ON) as rig:
        origin.store.put_synthetic("bucket", "key", 1 << 40)
        client = rig.client()
        connection = await client.open()
        await connection.send(client.sign("GET", "/bucket/key").wire)
        await connection.read_head()
        connection.reset()
        await origin.log.wait_idle()


@pytest.mark.parametrize("action", [actions.CloseAfter(100), actions.ResetAfter(100)])
async def test_an_answer_that_breaks_off_is_seen_to_break_off(tmp_path: Path, action: actions.Action) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=PASSED_ON) as rig:
        origin.store.put("bucket", "key", b"x" * 1000)
        origin.faults.add(action, method="GET")
        answer = await rig.client().request("GET", "/bucket/key")
        assert answer.aborted
        assert len(answer.body) <= 100


async def test_a_chunked_answer_that_breaks_off_is_seen_to_break_off(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=PASSED_ON) as rig:
        origin.store.put("bucket", "key", b"x" * 1000)
        whole = origin.faults.add(actions.ChunkedBody(), method="GET")
        answer = await rig.client().request("GET", "/bucket/key")
        assert (answer.body, answer.aborted) == (b"x" * 1000, False)
        origin.faults.remove(whole)
        origin.faults.add(actions.ChunkedBody(), actions.CloseAfter(100), method="GET")
        assert (await rig.client().request("GET", "/bucket/key")).aborted


async def test_connection_headers_are_not_forwarded(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=PASSED_ON) as rig:
        origin.store.put("bucket", "key", b"x")
        added = {"Connection": "x-hop", "x-hop": "1", "Keep-Alive": "timeout=5", "Set-Cookie": "a=b", "x-amz-x": "2"}
        origin.faults.add(actions.ChangeHeaders(tuple(added.items())))
        answer = await rig.client().request("GET", "/bucket/key")
        assert answer.headers["x-amz-x"] == "2"
        assert not {"x-hop", "keep-alive", "set-cookie"} & {name.lower() for name, _ in answer.pairs}


@pytest.mark.parametrize(
    "target", ["/bucket/key", "/bucket/key?tagging", "/bucket?versioning", "/bucket/key?versionId=null"]
)
async def test_missing_content_type_stays_missing(tmp_path: Path, target: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=PASSED_ON) as rig:
        origin.store.put("bucket", "key", b"x" * 1000)
        origin.faults.add(actions.ChangeHeaders(drop=frozenset({"content-type"})))
        answer = await rig.client().request("GET", target)
        assert (answer.status, answer.headers.get("Content-Type")) == (200, None)


async def test_a_redirect_is_passed_on_and_never_followed(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"x")
        origin.store.put("bucket", "other", b"y")
        origin.faults.add(actions.Redirect(f"{origin.endpoint}/bucket/other"), key="key")
        for method, target in (("GET", "/bucket/key"), ("GET", "/bucket/key?acl"), ("DELETE", "/bucket/key")):
            answer = await rig.client().request(method, target)
            assert (answer.status, answer.headers["Location"]) == (307, f"{origin.endpoint}/bucket/other")
        assert origin.log.count(key="other") == 0


LATE = {
    "CompleteMultipartUpload": ("POST", "/bucket/key?uploadId=u", (), COMPLETE),
    "CopyObject": ("PUT", "/bucket/key", (("x-amz-copy-source", "bucket/other"),), b""),
}


@pytest.mark.parametrize("operation", LATE)
async def test_a_failure_behind_a_status_of_200_is_passed_on_and_heeded(tmp_path: Path, operation: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=FOREVER) as rig:
        origin.store.put("bucket", "key", b"old")
        client: RawClient = rig.client()
        await client.request("GET", "/bucket/key")
        origin.faults.add(actions.LateError(), operation=operation)
        method, target, headers, body = LATE[operation]
        answer = await client.request(method, target, headers, body)
        assert answer.status == 200
        assert b"<Code>InternalError</Code>" in answer.body
        # Whatever the origin does with it later is seen, under the strongest rule.
        origin.store.put("bucket", "key", b"late")
        assert (await client.request("GET", "/bucket/key")).body == b"late"
        origin.store.put("bucket", "key", b"later still")
        assert (await client.request("GET", "/bucket/key")).body == b"later still"


async def test_keepalive_bytes_pass_at_once_and_the_outcome_later(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=FOREVER) as rig:
        origin.store.put("bucket", "key", b"old")
        client, alive, late = rig.client(), Gate(), Gate()
        method, target, headers, body = LATE["CompleteMultipartUpload"]
        held = actions.HoldAfter(len(DECLARATION), alive), actions.HoldAfter(len(DECLARATION) + 20, late)
        origin.faults.add(actions.LateError(), *held, operation="CompleteMultipartUpload")
        async with await client.open() as connection:
            await connection.send(client.sign(method, target, headers, body).wire)
            head = await connection.read_head()
            assert head.status == 200
            assert await connection.read(len(DECLARATION)) == DECLARATION
            assert (await client.request("GET", "/bucket/key")).body == b"old"
            alive.open()
            await late.reached()
            origin.store.put("bucket", "key", b"new")
            late.open()
            rest, cut = await connection.read_rest()
            assert (b"<Code>InternalError</Code>" in rest, cut) == (True, False)
        assert (await client.request("GET", path_of("bucket", "key"))).body == b"new"


async def test_disconnect_before_the_outcome_leaves_an_in_doubt_write(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=FOREVER) as rig:
        origin.store.put("bucket", "key", b"old")
        gateway, late = rig.parts.requests.gateway, Gate()
        gateway.policy = replace(gateway.policy, keyring=Keyring({}, {}, EVERYBODY))
        method, target, _, body = LATE["CompleteMultipartUpload"]
        origin.faults.add(
            actions.LateError(), actions.HoldAfter(len(DECLARATION), late), operation="CompleteMultipartUpload"
        )
        reply = await handle_request(gateway, method, target, (), body, DisconnectedReply())
        assert reply.aborted
        assert (await handle_request(gateway, "GET", "/bucket/key")).body == b"old"
        origin.store.put("bucket", "key", b"new")  # the origin has not left
        assert (await handle_request(gateway, "GET", "/bucket/key")).body == b"new"
        late.open()
