"""The typed calls of the supervisor to a worker: arguments and results pass through JSON; misfits fail as the peer."""

import json
from functools import partial
from typing import Any, cast

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version
from forebay.peers.frames import Document
from forebay.peers.peer_client import Peer
from forebay.server.admin.cached_objects import CacheView, ResidentBlocks, SsdEntry
from forebay.server.admin.control import JobVerbs, RecordingVerbs
from forebay.server.admin.schema.admin_schema import Job
from forebay.server.admin.schema.warm_order import WarmOrder
from forebay.workers.worker_rpc import (
    ConfigRefusal,
    WorkerOrders,
    WorkerRpc,
    call,
    client_stub,
    request_document,
    rpc_handlers,
)

HEAD = Head(ObjectFacts(Version('"e"'), 10, "", (("Content-Type", "text/plain"),)), 4, Generation(b"g"), 1.5)
MANY_BLOCKS = f"{1 << 20_000:x}"  # more digits than JSON's integers may have


class FakeWorker:
    """Answers some methods, and records their arguments."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    async def prepare_config(self, text: str | None, mode: int) -> ConfigRefusal | None:
        self.calls.append((text, mode))
        return ConfigRefusal("memory.size", text, "a size") if text is not None else None

    async def start_job(self, order: WarmOrder) -> Job:
        self.calls.append(order)
        return Job("j1", order.bucket or "", order.prefix, "running", None, 8, 1.0, None, 0, False, 0, 0, 0, 0, ())

    async def commit_config(self) -> None:
        self.calls.append(())

    async def ssd_entries(self, bucket: str, prefix: str, cursor: bytes, limit: int) -> list[SsdEntry]:
        self.calls.append((bucket, prefix, cursor, limit))
        return [SsdEntry("key", HEAD, b"\xff")]

    async def resident_blocks(self, versions: list[tuple[ObjectName, Head]]) -> list[ResidentBlocks]:
        self.calls.append(versions)
        return [ResidentBlocks(MANY_BLOCKS, "0", 7)]


class LoopbackPeer:
    """Calls the handlers of a worker, with documents that went through JSON."""

    def __init__(self, worker: FakeWorker) -> None:
        self._handlers = (
            rpc_handlers(WorkerRpc, worker)
            | rpc_handlers(WorkerOrders, worker)
            | rpc_handlers(CacheView, worker)
            | rpc_handlers(JobVerbs, worker)
        )

    async def call(self, document: Document) -> Document:
        received = json.loads(json.dumps(document))
        return cast("Document", json.loads(json.dumps(await self._handlers[received["kind"]](received))))


@pytest.fixture
def worker() -> FakeWorker:
    return FakeWorker()


@pytest.fixture
def peer(worker: FakeWorker) -> Peer:
    return cast("Any", LoopbackPeer(worker))  # type: ignore[no-any-return] # its `call` is all that is used


async def test_arguments_and_results_are_typed(peer: Peer, worker: FakeWorker) -> None:
    order = WarmOrder("bucket", None, ("a", "b"), concurrency=4)
    job = await call(peer, JobVerbs.start_job, order)
    assert job is not None
    assert (job.id, job.prefix, worker.calls) == ("j1", None, [order])


async def test_optional_results_may_be_none(peer: Peer) -> None:
    assert await call(peer, WorkerRpc.prepare_config, None, 0o600) is None
    refused = ConfigRefusal("memory.size", "many", "a size")
    assert await call(peer, WorkerRpc.prepare_config, "many", 0o600) == refused
    await call(peer, WorkerOrders.commit_config)


async def test_cache_views_work_through_a_socket(peer: Peer, worker: FakeWorker) -> None:
    view = client_stub(CacheView, partial(call, peer))
    assert await view.ssd_entries("bucket", "p", b"\x00", 5) == [SsdEntry("key", HEAD, b"\xff")]
    versions = [(ObjectName("bucket", "key"), HEAD)]
    assert await view.resident_blocks(versions) == [ResidentBlocks(MANY_BLOCKS, "0", 7)]
    assert worker.calls == [("bucket", "p", b"\x00", 5), versions]


def test_arguments_that_are_left_out_are_sent() -> None:
    document = request_document(RecordingVerbs.save_recording, "b", "n", shared=True)
    assert document == {"kind": "RecordingVerbs.save_recording", "arguments": ["b", "n", "", True]}


async def test_misfitting_documents_are_a_peers_failure(peer: Peer, worker: FakeWorker) -> None:
    document = request_document(WorkerRpc.prepare_config, "text", 0o600)
    with pytest.raises(PeerUnavailable):
        await peer.call({**document, "arguments": ["text"]})
    with pytest.raises(PeerUnavailable):
        await peer.call({**document, "arguments": ["text", "0600"]})
    assert worker.calls == []
