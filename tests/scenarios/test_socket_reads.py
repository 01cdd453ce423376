"""Reads over the Unix socket: the bytes and heads of HTTP, in whatever form the body comes."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.protocol.signatures.signing_key import SecretKey
from forebay.server.shared_memory.client_ring import STEP
from forebay_client import AccessDenied, Client, ObjectNotFound, RangeNotSatisfiable
from forebay_client.shared_memory.read_signing import ReadSigner
from forebay_client.shared_memory.received_head import ReceivedHead
from forebay_demo.free_ports import free_ports
from harness.fake_origin import FakeOrigin
from harness.rig import READER, TRAINER, Rig
from harness.socket_rig import HandChannel, SocketRig

MIB = 1 << 20
KEY = SecretKey(TRAINER.access, TRAINER.secret)
SIZES = (0, 1, 4096, 16_384, 16_385, 131_072, 602_112, 3 * MIB + 5)


def content_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


async def test_every_size_comes_as_over_http(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        for size in SIZES:
            origin.store.put("b", f"open/{size}", content_of(size))
        for secret in (READER, None):
            client = rig.library() if secret is None else rig.library(secret)
            plain = rig.library(socket="")

            def compare(client: Client = client, plain: Client = plain) -> None:
                for size in SIZES:
                    for _ in range(5):  # a miss, hits, promotion
                        assert client.get("b", f"open/{size}") == content_of(size)
                    if size > 100:
                        assert client.get_range("b", f"open/{size}", 17, 99) == content_of(size)[17:99]
                        assert client.get_range("b", f"open/{size}", size - 50, None) == content_of(size)[-50:]
                    buffer = bytearray(size + 3)
                    assert client.get_into("b", f"open/{size}", buffer) == size
                    assert buffer[:size] == content_of(size) == plain.get("b", f"open/{size}")

            await asyncio.to_thread(compare)
            stats = client.stats
            assert stats.fallbacks == {}
            assert set(stats.requests) == {"socket"}
            client.close()
            plain.close()
        assert {"inline", "ring"} <= set(rig.forms())


async def test_heads_are_those_of_http(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        origin.store.put("b", "k", b"x" * 50_000, **{"x-amz-meta-name": "value"})
        channel = await HandChannel.open(rig)
        changing = {"x-amz-request-id", "date", "x-forebay-cache", "connection"}
        for _ in range(3):
            head, body = await channel.read("b", "k")
            answer = await rig.client().request("GET", "/b/k")
            expected = {name.lower(): value for name, value in answer.headers.items()}
            assert {k: v for k, v in head.items() if k not in changing} == {
                k: v for k, v in expected.items() if k not in changing
            }
            assert body == answer.body
        assert head["x-forebay-cache"] == "hit-memory"
        etag = head["etag"]
        assert (await channel.read("b", "k", if_none_match=etag))[0].status == 304
        assert (await channel.read("b", "k", if_match='"other"'))[0].status == 412
        channel.close()


async def test_errors_are_those_of_http(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        origin.store.put("b", "open/k", b"content")
        origin.store.put("b", "closed/k", b"secret")
        client, reader = rig.library(), rig.library(READER)

        def read() -> None:
            with pytest.raises(ObjectNotFound):
                client.get("b", "open/absent")
            with pytest.raises(RangeNotSatisfiable):
                client.get_range("b", "open/k", 100, 200)
            with pytest.raises(AccessDenied):
                reader.get("b", "closed/k")

        await asyncio.to_thread(read)
        assert client.stats.fallbacks == {}
        assert reader.stats.fallbacks == {"socket: declined": 1}  # the refusal itself is HTTP's


async def test_plain_http_works_over_the_socket(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        origin.store.put("b", "k", b"x" * 300_000)
        signer = ReadSigner(rig.endpoint.removeprefix("http://"), TRAINER.region, lambda: KEY)
        reader, writer = await asyncio.open_unix_connection(rig.socket)
        for _ in range(5):  # the last by sendfile, from shared memory
            writer.write(signer.head("b", "k", None))
            head = ReceivedHead(await reader.readuntil(b"\r\n\r\n"))
            assert head.status == 200
            assert await reader.readexactly(int(head["content-length"])) == b"x" * 300_000
        writer.close()
        assert rig.forms() == {}


async def test_a_client_that_keeps_its_views_is_served_still(tmp_path: Path) -> None:
    settings = {"rest": '[[rules]]\npath = "**"\nfreshness = "immutable"\n'}
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, **settings) as rig:
        rig.parts.storage.rings.resize(2 * STEP)
        for number in range(8):
            origin.store.put("b", f"open/{number}", content_of(number + 500_000))
        hoarder, other = rig.library(READER), rig.library(READER)

        def hoard() -> list[memoryview]:
            return [hoarder.get("b", f"open/{number}") for number in range(8)]

        views = await asyncio.to_thread(hoard)
        assert rig.parts.storage.rings.in_use == 2 * STEP
        assert await asyncio.to_thread(other.get, "b", "open/3") == content_of(500_003)
        assert [bytes(view) for view in views] == [content_of(number + 500_000) for number in range(8)]
        assert rig.forms() == {"ring": 4, "inline": 5}
        assert hoarder.stats.fallbacks == other.stats.fallbacks == {}
        hoarder.close()
        await rig.channels_are(1)
        rig.worker.client_memory.check()
        assert rig.parts.storage.rings.in_use == 2 * STEP  # the views are still there
        assert bytes(views[0]) == content_of(500_000)
        views.clear()
        rig.worker.client_memory.check()
        assert rig.parts.storage.rings.in_use == 0
        other.close()


async def test_views_outlive_eviction_writes_and_forebay_itself(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory="64MiB") as rig:
        for number in range(12):
            origin.store.put("b", f"open/{number}", content_of(number + 1_000_000))
        client = rig.library()

        def read(number: int) -> memoryview:
            return client.get("b", f"open/{number}")

        await rig.promote(client, "b", *(f"open/{number}" for number in range(6)))
        views = [await asyncio.to_thread(read, number) for number in range(6)]
        assert rig.forms()["memory"] >= 4
        await asyncio.to_thread(client.put, "b", "open/0", b"another")
        rig.parts.storage.tiers.memory.resize(4 * MIB)
        for number in range(6, 12):
            await asyncio.to_thread(read, number)
        assert bytes(await asyncio.to_thread(read, 0)) == b"another"
        assert [bytes(view) for view in views] == [content_of(number + 1_000_000) for number in range(6)]
        assert client.stats.fallbacks == {}
    assert [bytes(view) for view in views] == [content_of(number + 1_000_000) for number in range(6)]


async def test_blocks_of_the_ssd_come_by_their_descriptor(tmp_path: Path) -> None:
    settings = {"memory": "0B", "ssd": "64MiB", "rest": '[[rules]]\npath = "**"\nfreshness = "immutable"\n'}
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, **settings) as rig:
        origin.store.put("b", "open/k", content_of(700_000))
        client, reader = rig.library(), rig.library(READER)
        await asyncio.to_thread(client.get, "b", "open/k")
        await rig.parts.storage.tiers.flush()
        for each in (client, client, reader):
            assert await asyncio.to_thread(each.get, "b", "open/k") == content_of(700_000)
        assert (
            await asyncio.to_thread(client.get_range, "b", "open/k", 100_000, 400_000)
            == (content_of(700_000)[100_000:400_000])
        )
        assert rig.forms() == {"ring": 2, "segment": 3}


async def test_a_changed_configuration_ends_channels_with_files(tmp_path: Path) -> None:
    """Descriptors of memory are let go of when a key may have been revoked."""
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        origin.store.put("b", "open/k", content_of(4 * MIB))
        client = rig.library()
        await rig.promote(client, "b", "open/k")
        await asyncio.to_thread(client.get, "b", "open/k")
        assert rig.forms()["memory"] == 1
        memory = rig.worker.client_memory
        assert memory.files.size > 0
        memory.check()
        assert len(memory.channels) == 1
        rig.parts.requests.gateway.policy = replace(rig.parts.requests.gateway.policy)  # as a reload does
        memory.check()
        assert rig.all_channels_end()  # not as their client is idle
        await rig.channels_are(0)
        assert await asyncio.to_thread(client.get, "b", "open/k") == content_of(4 * MIB)
        client.close()


async def test_the_endpoint_says_where_the_socket_is(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        origin.store.put("b", "k", b"content")
        client = rig.library(socket=None)
        assert bytes(await asyncio.to_thread(client.get, "b", "k")) == b"content"
        assert client.stats.requests == {"socket": 1}


async def test_without_a_socket_everything_goes_by_http(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("b", "k", b"content")
        hinted, configured = (
            Client(rig.endpoint, access_key=TRAINER.access, secret_key=TRAINER.secret, socket=path)
            for path in (None, str(tmp_path / "none"))
        )
        for client in (hinted, configured):
            with client:
                assert bytes(await asyncio.to_thread(client.get, "b", "k")) == b"content"
                assert client.stats.requests == {"http": 1}
        assert hinted.stats.fallbacks == {}
        assert rig.parts.context.metrics.by_status() == {200: 2}, "asking for a socket is no bad request"
        assert configured.stats.fallbacks == {"socket: unreachable": 1}


async def test_a_restart_of_forebay_is_no_error(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        origin.store.put("b", "k", b"x" * 100_000)
        [port] = free_ports(1)
        rig.configuration = rig.configuration.replace('listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{port}"', 1)
        await rig.restart()
        client = rig.library()
        view = await asyncio.to_thread(client.get, "b", "k")
        await rig.restart()
        assert await asyncio.to_thread(client.get, "b", "k") == b"x" * 100_000
        assert client.stats.fallbacks == {}
        assert client.stats.requests == {"socket": 2}
        assert bytes(view) == b"x" * 100_000


async def test_a_channel_that_breaks_falls_back_to_http(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        origin.store.put("b", "k", b"content")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n" * 5)
            writer.close()

        impostor = str(tmp_path / "impostor")
        async with await asyncio.start_unix_server(serve, impostor):
            client = rig.library(socket=impostor)
            assert bytes(await asyncio.to_thread(client.get, "b", "k")) == b"content"
            assert client.stats.fallbacks == {"socket: refused": 1}
