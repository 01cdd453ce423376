"""The table of multipart uploads in progress, and its copies in other workers."""

from pathlib import Path
from typing import Any

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.names import Generation, ObjectName, UploadKey
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.staged_objects import StagedBody
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_client import Peer
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.server.rpc.rpc_server import RpcServer
from forebay.storage.spool import Spool
from forebay.storage.spooled_body import SpooledFile
from forebay.write.body_digest import BodyDigest
from forebay.write.multipart.multipart_registry import (
    MAX_JOINED,
    MAX_PARTS,
    JoinedObject,
    KnownPart,
    MultipartRegistry,
)

NAME = ObjectName("b", "k")
KEY = UploadKey(NAME, "u")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def a_registry(clock: Clock | None = None, max_parts: int = MAX_PARTS, peers: Peers | None = None) -> MultipartRegistry:
    return MultipartRegistry(peers or Peers(), clock or Clock(), 10, max_parts)


def a_spool(directory: Path) -> Spool:
    return Spool(1000, FairSemaphore(1000), share=1000, wait=0.01, parent=directory)


async def spooled(spool: Spool, body: bytes) -> KnownPart:
    spooled, digest = spool.create(), BodyDigest()
    digest.update(body)
    await spooled.reserve(len(body))
    spooled.append(body)
    return KnownPart(f'"{body.hex()}"', digest, spooled)


def blocks(etag: str) -> StagedBody:
    return StagedBody(Generation(etag.encode().ljust(8)), 64, 100, f'"{etag}"')


def staged(etag: str) -> KnownPart:
    return KnownPart(f'"{etag}"', BodyDigest(7, 100), staged=blocks(etag))


async def remembering(*parts: tuple[int, str]) -> MultipartRegistry:
    registry = a_registry()
    for number, etag in parts:
        await registry.add(KEY, number, staged(etag))
    return registry


async def test_a_replaced_part_releases_its_spooled_bytes(tmp_path: Path) -> None:
    spool, registry = a_spool(tmp_path), a_registry()
    first, second = await spooled(spool, b"1"), await spooled(spool, b"2")
    await registry.add(KEY, 1, first)
    listed = [UploadedPart(1, first.etag.strip('"').upper()), UploadedPart(2, "")]
    assert registry.lookup(KEY, listed) == [first, None]
    assert registry.lookup(UploadKey(NAME, "other"), listed) == [None, None]
    assert not registry.conflicts(KEY, listed)
    await registry.add(KEY, 1, second)
    assert (len(spool), registry.lookup(KEY, listed), registry.conflicts(KEY, listed)) == (1, [None, None], True)
    second.coalesced_etag = '"ab"'
    assert registry.lookup(KEY, [UploadedPart(1, "AB")]) == [second]
    await registry.remove(KEY, 1)
    await registry.remove(KEY, 1)
    assert (len(spool), spool.in_use) == (0, 0)


async def test_idle_uploads_release_their_spooled_bytes(tmp_path: Path) -> None:
    clock, spool = Clock(), a_spool(tmp_path)
    registry = a_registry(clock)
    idle, busy, new = (UploadKey(NAME, upload_id) for upload_id in ("idle", "busy", "new"))
    await registry.add(idle, 1, await spooled(spool, b"1"))
    await registry.add(busy, 1, await spooled(spool, b"2"))
    clock.now = 8
    registry.lookup(busy, [UploadedPart(1, "")])
    clock.now = 11
    await registry.add(new, 1, await spooled(spool, b"3"))
    assert (len(registry), len(spool)) == (2, 2)
    clock.now = 18.5
    registry.expire()
    assert (len(registry), len(spool)) == (1, 1)
    for key in (busy, new, idle):
        await registry.forget(key)
    assert (len(registry), len(spool), spool.in_use) == (0, 0, 0)


async def test_too_many_parts_forget_whole_uploads(tmp_path: Path) -> None:
    spool, registry = a_spool(tmp_path), a_registry(max_parts=2)
    for upload_id in ("a", "b"):
        for number in (1, 2):
            await registry.add(UploadKey(NAME, upload_id), number, await spooled(spool, b"x"))
    assert (len(registry), len(spool)) == (1, 2)


async def test_staged_parts_come_in_the_order_of_the_completion() -> None:
    registry = await remembering((3, "c"), (1, "a"), (2, "b"))
    assert registry.staged(KEY, [UploadedPart(1, '"a"'), UploadedPart(3, "C")]) == [blocks("a"), blocks("c")]
    await registry.forget(KEY)
    assert len(registry) == 0


@pytest.mark.parametrize(
    "listed",
    [
        [UploadedPart(1, "a"), UploadedPart(2, "b")],
        [UploadedPart(1, "another")],
        [UploadedPart(1, "")],
        [UploadedPart(2, "b"), UploadedPart(1, "a")],
    ],
)
async def test_a_part_that_is_not_known_as_listed_spoils_the_whole(listed: list[UploadedPart]) -> None:
    assert (await remembering((1, "a"))).staged(KEY, listed) is None


async def test_a_part_that_was_not_staged_spoils_the_whole() -> None:
    registry = await remembering((1, "a"))
    await registry.add(KEY, 2, KnownPart('"b"', BodyDigest()))
    assert registry.staged(KEY, [UploadedPart(1, "a"), UploadedPart(2, "b")]) is None


async def test_the_later_upload_of_a_part_counts() -> None:
    registry = await remembering((1, "a"), (1, "b"))
    assert registry.staged(KEY, [UploadedPart(1, "b")]) == [blocks("b")]


async def test_uploads_are_known_by_object_and_id() -> None:
    registry = await remembering((1, "a"))
    assert registry.staged(UploadKey(NAME, "other"), [UploadedPart(1, "a")]) is None
    assert registry.staged(UploadKey(ObjectName("b", "other"), "u"), [UploadedPart(1, "a")]) is None
    await registry.forget(KEY)
    assert registry.staged(KEY, [UploadedPart(1, "a")]) is None


async def test_the_longest_idle_upload_is_forgotten() -> None:
    registry = a_registry(max_parts=2)
    for upload_id in ("1", "2", "1", "3"):
        await registry.add(UploadKey(NAME, upload_id), 1, staged("a"))
    assert len(registry) == 2
    assert registry.staged(UploadKey(NAME, "2"), [UploadedPart(1, "a")]) is None
    assert registry.staged(UploadKey(NAME, "1"), [UploadedPart(1, "a")]) is not None


async def test_parts_are_counted_and_whole_uploads_forgotten() -> None:
    registry = a_registry(max_parts=3)
    for upload_id, number in (("1", 1), ("2", 1), ("2", 2), ("2", 2), ("3", 1)):
        await registry.add(UploadKey(NAME, upload_id), number, staged("a"))
    assert registry.staged(UploadKey(NAME, "1"), [UploadedPart(1, "a")]) is None
    second = UploadKey(NAME, "2")
    assert registry.staged(second, [UploadedPart(1, "a"), UploadedPart(2, "a")]) is not None
    await registry.forget(second)
    await registry.forget(UploadKey(NAME, "3"))
    for number in (1, 2, 3):  # a completed upload is not counted any more
        await registry.add(UploadKey(NAME, "4"), number, staged("a"))
    assert len(registry) == 1
    await registry.forget(UploadKey(NAME, "4"))
    await registry.add(UploadKey(NAME, "5"), 1, staged("a"))
    assert registry.staged(UploadKey(NAME, "5"), [UploadedPart(1, "a")]) is not None


class AnotherWorker(Peers):
    """The other workers: one registry, which is sent each message as it left."""

    def __init__(self) -> None:
        super().__init__()
        peer: Any = None
        self.others = {1: peer}
        self.registry = a_registry()
        self.messages: list[Document] = []

    async def call_all(self, document: Document) -> dict[int, Document]:
        self.messages.append(document)
        self.registry.receive(document)
        return {1: {}}


async def test_another_worker_knows_each_change(tmp_path: Path) -> None:
    other, spool = AnotherWorker(), a_spool(tmp_path)
    registry, listed = a_registry(peers=other), [UploadedPart(1, '"61"'), UploadedPart(2, '"b"')]
    first, second = await spooled(spool, b"a"), staged("b")
    await registry.add(KEY, 1, first)
    await registry.add(KEY, 2, second)
    here, there = other.registry.lookup(KEY, listed)
    assert here is not None
    assert isinstance(here.spooled, SpooledFile)
    assert [bytes(piece) async for piece in here.spooled.pieces()] == [b"a"]
    assert (here.etag, here.digest, there) == (first.etag, first.digest, second)
    await registry.note_coalesced(KEY, 1, '"joined"', BodyDigest(5, 2))
    assert (here.coalesced_etag, here.coalesced) == ('"joined"', BodyDigest(5, 2))
    await registry.remove(KEY, 2)
    assert other.registry.lookup(KEY, listed) == [here, None]
    await registry.note_coalesced(KEY, 2, '"joined"', BodyDigest(5, 2))
    assert other.registry.lookup(KEY, listed) == [here, None]
    await registry.forget(KEY, JoinedObject("request", '"etag"'))
    assert len(other.registry) == 0
    assert other.registry.joined_etag(KEY, "request") == '"etag"'
    spool.close()


async def test_an_object_of_joined_parts_is_remembered() -> None:
    """By the upload and the whole request."""
    registry = a_registry()
    await registry.forget(UploadKey(NAME, "not joined"))
    await registry.forget(KEY, JoinedObject("request", '"etag"'))
    asked = [(KEY, "request"), (KEY, "another"), (UploadKey(NAME, "v"), "request"), (UploadKey(NAME, "not joined"), "")]
    assert [registry.joined_etag(*each) for each in asked] == ['"etag"', "", "", ""]
    for number in range(MAX_JOINED):
        await registry.forget(UploadKey(NAME, f"later {number}"), JoinedObject("request", '"later"'))
    assert registry.joined_etag(KEY, "request") == ""


def test_a_malformed_change_is_refused() -> None:
    upload: Document = {"name": ["b", "k"], "upload": "u"}
    for document in ({}, {"name": ["b", "k"]}, {**upload, "number": 1, "etag": "e"}, {**upload, "made": ["request"]}):
        with pytest.raises(PeerUnavailable):
            a_registry().receive(document)


async def test_a_starting_worker_flushes_nothing(tmp_path: Path) -> None:
    """It answers every call before it has its parts."""
    calls: list[Document] = []

    class Calls(Peers):
        async def call_all(self, document: Document) -> dict[int, Document]:
            calls.append(document)
            return await super().call_all(document)

    server, tasks = RpcServer(tmp_path / "socket", {}), TaskRegistry()
    await server.start()
    try:
        registry = a_registry(peers=Calls({1: Peer(1, tmp_path / "socket", 0, tasks.spawn)}))
        await registry.flush_staged()
        assert [call["kind"] for call in calls] == ["flush"]
        assert registry.staged(KEY, [UploadedPart(1, '"etag"')]) is None
    finally:
        await server.close()
        await tasks.close()
