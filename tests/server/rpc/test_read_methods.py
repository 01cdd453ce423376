"""The owner's reads for other workers: what is sent along with a head, what is refused, and that nothing stays open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import PeerUnavailable, Throttled, VersionChanged
from forebay.core.names import BlockId, ObjectName
from forebay.fetch.block_source import BlockSource
from forebay.peers.frames import WHOLE_PAYLOAD, Document
from forebay.peers.peer_codec import decode_head, encode_head, encode_name
from forebay.policy.rules import Decision
from forebay.server.rpc.read_methods import ReadMethods
from harness.fake import actions
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig
from harness.held_ssd import HeldSsd


class Policy:
    """One rule for all objects, and no origin identities."""

    def __init__(self, block: int) -> None:
        self.decision = replace(DECISION, block=block)
        self.rules = self.keyring = self
        self.origin_identities: dict[str, object] = {}

    def decide(self, _: ObjectName) -> Decision:
        return self.decision


class Response:
    """What the calling worker receives. `is_gone`: it has hung up."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.document: Document = {}
        self.body = b""
        self.ended = ""
        self._is_gone = is_gone

    def write(self, document: Document) -> None:
        if self._is_gone:
            raise PeerUnavailable("the connection ended")
        self.document = document

    async def send(self, document: Document) -> None:
        self.write(document)

    async def send_bytes(self, buffer: Buffer) -> None:
        self.body += bytes(buffer)

    async def send_whole(self, document: Document, buffer: Buffer) -> None:
        self.write(document)
        self.body, self.ended = bytes(buffer), "whole"

    async def send_end(self) -> None:
        self.ended = "end"


class FullSsd(HeldSsd):
    """Says of every block that it is there."""

    def has(self, block: BlockId) -> bool:
        return True


class SsdOfFirstBlocks(HeldSsd):
    """Says of the first block of each object that it is there."""

    def has(self, block: BlockId) -> bool:
        return block.number == 0


class Owner:
    def __init__(self, rig: FetchRig, source: BlockSource, block: int) -> None:
        policy: Any = Policy(block)
        self.rig = rig
        self._methods = ReadMethods(rig.resolver, source, rig.heads, lambda: policy).methods.streaming

    async def call(self, kind: str, out: Response | None = None, **request: object) -> Response:
        response = out or Response()
        await self._methods[kind]({"name": encode_name(NAME), **request}, response)
        return response

    async def resolve(self, span: Span | None = None, out: Response | None = None, **request: object) -> Response:
        return await self.call("resolve", out, span=list(span) if span is not None else None, **request)

    async def read(self, head: Document, span: Span, out: Response | None = None, **request: object) -> Response:
        return await self.call("read", out, head=head, span=list(span), **request)


@asynccontextmanager
async def owner(memory: int = 1 << 24, ssd: HeldSsd | None = None, block: int = BLOCK) -> AsyncIterator[Owner]:
    async with fetch_rig(memory, ssd=ssd) as rig:
        yield Owner(rig, rig.block_source(), block)


async def test_a_head_comes_with_the_blocks_that_were_wanted() -> None:
    async with owner() as node:
        content = bytes(BLOCK) + b"b" * BLOCK + b"the rest"
        node.rig.origin.store.put(*NAME, content)
        first = await node.resolve(Span(0, BLOCK + 1))
        assert (first.document["span"], first.document["source"], first.body) == ([0, BLOCK], "flight", content[:BLOCK])
        all_of_it = await node.resolve(Span(0, 9 * BLOCK))
        assert (all_of_it.document["span"], all_of_it.body) == ([0, len(content)], content)
        assert all_of_it.ended


@pytest.mark.parametrize("span", [None, Span(1, 2 * BLOCK), Span(0, BLOCK - 1), Span(4 * BLOCK, 5 * BLOCK)])
async def test_a_head_comes_alone_where_no_whole_block_fits(span: Span | None) -> None:
    async with owner() as node:
        node.rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        await node.rig.head()
        response = await node.resolve(span)
        assert response.document.keys() == {"head", "status"}
        assert (response.body, response.ended) == (b"", "")


async def test_blocks_that_the_caller_has_are_not_sent() -> None:
    async with owner() as node:
        node.rig.origin.store.put_synthetic(*NAME, BLOCK)
        known = (await node.resolve(Span(0, BLOCK))).document["head"]["generation"]
        assert (await node.resolve(Span(0, BLOCK), unless=known)).document.keys() == {"head", "status"}
        node.rig.origin.store.put(*NAME, b"another")
        response = await node.resolve(Span(0, BLOCK), unless=known, strict=True)
        assert (response.document["status"], response.body) == ("fetched", b"another")
    async with owner(ssd=FullSsd()) as node:
        node.rig.origin.store.put_synthetic(*NAME, BLOCK)
        assert (await node.resolve(Span(0, BLOCK))).document.keys() == {"head", "status"}
    async with owner(ssd=SsdOfFirstBlocks()) as node:
        node.rig.origin.store.put(*NAME, bytes(2 * BLOCK))
        assert (await node.resolve(Span(0, 2 * BLOCK))).body == bytes(2 * BLOCK), "one of them is not there"


async def test_a_strict_call_asks_the_origin_again() -> None:
    async with owner() as node:
        node.rig.origin.store.put(*NAME, b"first")
        await node.resolve()
        node.rig.origin.store.put(*NAME, b"second one")
        assert (await node.resolve()).document["head"]["size"] == 5
        assert (await node.resolve(strict=True)).document["head"]["size"] == 10


@pytest.mark.parametrize("span", [None, Span(0, 2 * BLOCK)])
async def test_a_caller_that_hangs_up_leaves_no_flight(span: Span | None) -> None:
    async with owner(memory=0) as node:
        node.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        with pytest.raises(PeerUnavailable):
            await node.resolve(span, Response(is_gone=True))
        head = (await node.resolve()).document["head"]
        with pytest.raises(PeerUnavailable):
            await node.read(head, Span(0, 2 * BLOCK), Response(is_gone=True))


async def test_a_span_outside_of_the_object_is_refused() -> None:
    async with owner() as node:
        node.rig.origin.store.put_synthetic(*NAME, BLOCK)
        head = (await node.resolve()).document["head"]
        for span in (Span(0, BLOCK + 1), Span(5, 5)):
            with pytest.raises(PeerUnavailable):
                await node.read(head, span)
        response = await node.read(head, Span(5, BLOCK))
        assert (len(response.body), response.document["source"]) == (BLOCK - 5, "flight")
        assert (await node.read(head, Span(5, BLOCK))).document["source"] == "worker"


async def test_a_read_of_a_replaced_version_forgets_its_head() -> None:
    async with owner() as node:
        node.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head = (await node.resolve()).document["head"]
        node.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK, seed=1)
        with pytest.raises(VersionChanged):
            await node.read(head, Span(0, 2 * BLOCK))
        assert node.rig.heads.current(NAME) is None
        assert (await node.resolve()).document["head"]["etag"] != head["etag"]


async def test_an_unknown_principal_reads_nothing() -> None:
    async with owner() as node:
        node.rig.origin.store.put_synthetic(*NAME, BLOCK)
        head = (await node.resolve()).document["head"]
        sent = node.rig.origin.log.count()
        with pytest.raises(PeerUnavailable):
            await node.read(head, Span(0, BLOCK), identity="stranger")
        assert node.rig.origin.log.count() == sent


async def test_without_buffers_the_head_comes_alone() -> None:
    async with owner(memory=0) as node:
        node.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head = decode_head((await node.resolve()).document["head"])
        budget = node.rig.budget
        assert budget.try_acquire(budget.capacity)
        try:
            assert (await node.resolve(Span(0, 2 * BLOCK))).document.keys() == {"head", "status"}
            with pytest.raises(Throttled):
                await node.read(encode_head(head), Span(0, 2 * BLOCK))
        finally:
            budget.release(budget.capacity)


async def test_what_the_origin_refuses_is_passed_on() -> None:
    async with owner() as node:
        assert (await node.resolve(Span(0, BLOCK))).document["error"]["status"] == 404


async def test_a_version_is_read_by_its_id() -> None:
    async with owner() as node:
        store = node.rig.origin.store
        store.create_bucket(NAME.bucket).versioning = "Enabled"
        old = store.put(*NAME, b"first")
        store.put(*NAME, b"second one")
        assert (await node.resolve(version=old.version_id)).document["head"]["size"] == 5
        assert (await node.resolve()).document["head"]["size"] == 10
        node.rig.origin.faults.add(actions.change_headers(x_amz_version_id="another"), times=1)
        assert "uncacheable" in (await node.resolve(version=store.put(*NAME, b"3").version_id)).document


async def test_a_block_longer_than_a_frame_is_sent_in_pieces() -> None:
    content = bytes(range(256)) * (2 * WHOLE_PAYLOAD // 256)
    async with owner(block=len(content)) as node:
        node.rig.origin.store.put(*NAME, content)
        head = (await node.resolve(Span(0, len(content)))).document["head"]
        response = await node.read(head, Span(0, len(content)))
        assert (response.document["source"], response.body, response.ended) == ("worker", content, "end")


async def test_a_response_longer_than_a_frame_is_sent_in_pieces() -> None:
    blocks = WHOLE_PAYLOAD // BLOCK + 1
    async with owner() as node:
        content = bytes(range(256)) * (blocks * BLOCK // 256)
        node.rig.origin.store.put(*NAME, content)
        head = (await node.resolve()).document["head"]
        async with asyncio.TaskGroup() as group:
            both = [group.create_task(node.read(head, Span(0, len(content)))) for _ in range(2)]
        assert [(each.result().body, each.result().ended) for each in both] == [(content, "end")] * 2
        assert {each.result().document["source"] for each in both} == {"flight", "joined"}
