"""Openings that another worker's owner answers: both ends, over a socket, in one loop."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.names import BlockId, ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.direct_openings import DirectOpening
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import ResolvedVersion
from forebay.peers.opening_frames import MAX_OBJECT
from forebay.peers.owners import Peers
from forebay.peers.peer_client import Peer
from forebay.policy.freshness import AlwaysRevalidate
from forebay.policy.rules import Decision
from forebay.protocol.body.crc64 import crc64
from forebay.server.rpc.opening_answers import KEPT_SECONDS, OpeningAnswers
from forebay.server.rpc.peer_service import PeerService
from forebay.server.rpc.read_methods import ReadMethods
from forebay.server.rpc.rpc_server import RpcServer
from forebay.server.rpc.write_methods import WriteMethods
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, FetchRig, fetch_rig
from harness.inspection import run_loop_until
from harness.jumping_loop import JumpingLoop
from harness.owned_names import owner_of

NAME = next(
    name for name in (ObjectName("bucket", f"key-{number}") for number in range(100)) if owner_of(name, workers=2) == 1
)
LARGE = replace(DECISION, block=2 << 20)
"""For objects of one block that are larger than what a connection receives at once."""
CONNECTION = ObjectName("bucket", "connection")


@dataclass
class Relay:
    """Worker 0, which asks, and worker 1, which owns NAME."""

    asking: FetchRig
    owning: FetchRig
    server: RpcServer
    policy: "Policy"
    """Of the owner."""
    answers: list[OpeningAnswers] = field(default_factory=list)
    """Of each connection."""

    async def connect(self) -> "Relay":
        """Makes the connection that carries openings, and one of the owner to its origin."""
        assert self.begin() is None  # it only connects
        await run_loop_until(lambda: bool(self.answers and self.answers[-1].transport))
        await self.open_at_origin()
        return self

    async def open_at_origin(self) -> None:
        self.owning.origin.store.put(*CONNECTION, b"x")
        found = await self.owning.versions.fetch(
            LookupRequest(CONNECTION, DECISION, Span(0, BLOCK)), None, strict=False
        )
        assert isinstance(found, ResolvedVersion)
        found.release_flights()

    async def own(self, name: ObjectName, decision: Decision = DECISION) -> ResolvedVersion:
        """What the owner finds for a reader of its own, and keeps."""
        found = await self.owning.resolver.resolve(LookupRequest(name, decision, Span(0, decision.block)))
        assert isinstance(found, ResolvedVersion)
        return found

    async def own_large(self, content: bytes) -> None:
        """Has the owner keep an object of one block."""
        self.owning.origin.store.put(*NAME, content)
        await self.connect()
        found = await self.own(NAME, LARGE)
        for flight in list(found.flights.values()):
            await flight.wait_filled(len(content))
        found.release_flights()

    def begin(self, decision: Decision = DECISION) -> "asyncio.Future[DirectOpening] | None":
        """An opening; its future has it when it has ended."""
        ended: asyncio.Future[DirectOpening] = asyncio.get_running_loop().create_future()
        opening = self.asking.openings.begin(NAME, decision, Span(0, BLOCK), "reader", ended.set_result)
        return None if opening is None else ended

    async def ended(self) -> DirectOpening:
        opening = self.begin()
        assert opening is not None
        async with asyncio.timeout(30):
            return await opening

    async def resolve(self) -> ResolvedVersion:
        """What a reader with a task gets at worker 0."""
        found = await self.asking.resolver.resolve(LookupRequest(NAME, DECISION, Span(0, BLOCK)), leads=True)
        assert isinstance(found, ResolvedVersion)
        found.release_flights()
        return found


@asynccontextmanager
async def relay(directory: Path) -> AsyncIterator[Relay]:
    tasks, path = TaskRegistry(), directory / "socket"
    peer = Peer(1, path, 0, tasks.spawn)
    async with fetch_rig(peers=Peers({1: peer})) as asking, fetch_rig() as owning:
        policy: Any = Policy()
        nothing: Any = None
        node = Relay(asking, owning, RpcServer(path, {}), policy)

        def answer() -> OpeningAnswers:
            node.answers.append(OpeningAnswers(owning.openings, owning.tiers.memory, lambda: policy))
            return node.answers[-1]

        writes = WriteMethods(nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
        reads = ReadMethods(owning.resolver, owning.block_source(), owning.heads, lambda: policy)
        node.server.service = PeerService(writes, reads.methods, answer_openings=answer)
        await node.server.start()
        try:
            yield node
        finally:
            peer.close()
            await node.server.close()
            await tasks.close()
    assert owning.reads.client.reads.in_use == 0


class Policy:
    """One rule for all objects."""

    def __init__(self) -> None:
        self.rules = self
        self.decision = DECISION

    def decide(self, _: ObjectName) -> object:
        return self.decision


async def test_an_object_is_kept_in_both_workers(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        stored = node.owning.origin.store.put(*NAME, b"all of it")
        await node.connect()
        opening = await node.ended()
        assert opening.head is not None
        assert opening.body is not None
        assert (opening.head.version.etag, bytes(opening.body)) == (stored.etag, b"all of it")
        opening.finish()
        for rig in (node.asking, node.owning):
            assert rig.heads.current(NAME) == opening.head
            assert rig.tiers.memory.has(BlockId(NAME, opening.head.generation, 0))
        assert (node.owning.origin.log.count(key=NAME.key), node.asking.origin.log.count()) == (1, 0)


async def test_the_readers_task_goes_on_with_what_the_owner_sent(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, bytes(4 * BLOCK))
        await node.connect()
        opening = await node.ended()
        assert opening.head is None
        opening.give_up()
        assert (await node.resolve()).head.size == 4 * BLOCK
        assert (node.owning.origin.log.count(key=NAME.key), node.asking.origin.log.count()) == (1, 0)


async def test_what_nobody_goes_on_with_ends_with_the_connection(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, bytes(4 * BLOCK))
        await node.connect()
        opening = await node.ended()
        opening.give_up()
        opening.abandon()
        assert node.owning.reads.client.reads.in_use == 1
        node.answers[-1].abort()
        await node.answers[-1].ended
        assert node.owning.reads.client.reads.in_use == 0


def test_what_nobody_goes_on_with_ends_after_a_while(tmp_path: Path) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        async with relay(tmp_path) as node:
            node.owning.origin.store.put(*NAME, bytes(4 * BLOCK))
            await node.connect()
            opening = await node.ended()
            opening.give_up()
            opening.abandon()
            assert node.owning.reads.client.reads.in_use == 1
            with loop.jumping():
                await asyncio.sleep(KEPT_SECONDS)
            assert node.owning.reads.client.reads.in_use == 0

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(run())


async def test_an_object_that_the_owner_has_is_answered_at_once(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, b"all of it")
        await node.connect()
        (await node.own(NAME)).release_flights()
        opening = await node.ended()
        assert opening.head == node.owning.heads.current(NAME) == node.asking.heads.current(NAME)
        assert (bytes(opening.body or b""), opening.was_kept) == (b"all of it", True)
        opening.finish()
        assert node.owning.origin.log.count(key=NAME.key) == 1


async def test_who_shares_such_an_answer_has_it_from_the_owner(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, b"all of it")
        await node.connect()
        (await node.own(NAME)).release_flights()
        found = await node.asking.resolver.resolve(LookupRequest(NAME, DECISION, Span(0, BLOCK)), leads=True)
        assert isinstance(found, ResolvedVersion)
        assert (found.status, [flight.source for flight in found.flights.values()]) == ("fresh", ["worker"])
        found.release_flights()


@pytest.mark.parametrize("size", [200_000, MAX_OBJECT])
async def test_a_large_object_that_the_owner_has_is_answered_at_once(tmp_path: Path, size: int) -> None:
    async with relay(tmp_path) as node:
        await node.own_large(content := bytes(range(250)) * (size // 250) + b"x" * (size % 250))
        began = node.begin(LARGE)
        assert began is not None
        opening = await began
        assert opening.head is not None
        assert opening.body is not None
        assert (opening.head, opening.was_kept) == (node.asking.heads.current(NAME), True)
        assert bytes(opening.body) == content
        opening.finish()
        kept = node.asking.tiers.memory.get(BlockId(NAME, opening.head.generation, 0))
        assert kept is not None
        assert kept.obj is opening.body.obj, "a copy"
        assert (node.owning.origin.log.count(key=NAME.key), node.asking.origin.log.count()) == (1, 0)


async def test_bytes_that_the_owner_has_compared_are_not_compared_again(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        content = bytes(range(256)) * 1000
        node.owning.origin.faults.add(actions.change_headers(x_oss_hash_crc64ecma=f"{crc64(content)}"), key=NAME.key)
        await node.own_large(content)
        began = node.begin(LARGE)
        assert began is not None
        opening = await began
        assert opening.head is not None
        assert ("x-oss-hash-crc64ecma", f"{crc64(content)}") in opening.head.facts.headers
        assert bytes(opening.body or b"") == content
        opening.finish()


@pytest.mark.parametrize("case", ["too large", "no memory", "blocks are smaller here"])
async def test_a_large_object_that_does_not_fit_is_its_tasks(tmp_path: Path, case: str) -> None:
    async with relay(tmp_path) as node:
        await node.own_large(content := bytes(MAX_OBJECT + (case == "too large")))
        budget = node.asking.budget
        taken = budget.capacity if case == "no memory" else 0
        assert budget.try_acquire(taken)
        began = node.begin(DECISION if case == "blocks are smaller here" else LARGE)
        assert began is not None
        opening = await began
        assert opening.head is None
        budget.release(taken)
        opening.give_up()
        found = await node.asking.resolver.resolve(LookupRequest(NAME, LARGE, Span(0, LARGE.block)), leads=True)
        assert isinstance(found, ResolvedVersion)
        assert found.head.size == len(content)
        found.release_flights()
        assert (node.owning.origin.log.count(key=NAME.key), node.asking.origin.log.count()) == (1, 0)


async def test_a_reader_that_leaves_a_large_answer_gets_no_other(tmp_path: Path) -> None:
    """Its bytes are received and dropped; those behind it are another reader's."""
    async with relay(tmp_path) as node:
        await node.own_large(bytes(MAX_OBJECT))
        left = node.asking.openings.begin(NAME, LARGE, Span(0, BLOCK), "reader", lambda _: None)
        assert left is not None
        left.close()
        began = node.begin(LARGE)
        assert began is not None
        opening = await began
        assert bytes(opening.body or b"") == bytes(MAX_OBJECT)
        opening.finish()


@pytest.mark.parametrize("case", ["always", "in doubt", "pending", "aged", "large", "two blocks", "full", "evicted"])
async def test_an_object_that_the_owner_may_not_answer_with_is_refused(tmp_path: Path, case: str) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, bytes({"large": 4 * BLOCK, "two blocks": BLOCK + 1}.get(case, 9)))
        await node.connect()
        found = await node.own(NAME)
        found.release_flights()
        if case == "always":
            node.policy.decision = replace(DECISION, freshness=AlwaysRevalidate())
        elif case == "in doubt":
            node.owning.in_doubt_writes.mark_object(NAME, math.inf)
        elif case == "pending":
            node.owning.pending.add(NAME)
        elif case == "aged":
            node.owning.now += 61.0
        elif case == "full":
            node.answers[-1].pause_writing()
        elif case == "evicted":  # of its block; its head is still there
            memory = node.owning.tiers.memory
            head = memory.head(NAME)
            assert head is not None
            memory.forget(NAME)
            memory.put_head(NAME, head)
        opening = await node.ended()
        assert opening.head is None
        opening.give_up()
        opening.abandon()


async def test_nothing_is_requested_for_a_worker_that_takes_no_bytes(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, b"all of it")
        await node.connect()
        node.answers[-1].pause_writing()
        opening = await node.ended()
        assert opening.head is None
        assert node.owning.origin.log.count(key=NAME.key) == 0
        opening.give_up()
        opening.abandon()


async def test_bytes_do_not_wait_for_a_worker_that_takes_none(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, b"all of it")
        await node.connect()
        node.owning.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key)
        ended = node.begin()
        assert ended is not None
        await gate.reached()
        node.answers[-1].pause_writing()
        gate.open()
        opening = await ended
        assert opening.head is None
        opening.give_up()
        opening.abandon()


async def test_a_large_object_that_the_owner_knows_is_its_tasks(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, bytes(4 * BLOCK))
        await node.connect()
        found = await node.own(NAME)
        found.release_flights()
        requests = node.owning.origin.log.count(key=NAME.key)
        opening = await node.ended()
        assert opening.head is None
        assert node.owning.origin.log.count(key=NAME.key) == requests, "the owner knows it"
        opening.give_up()
        assert (await node.resolve()).head == found.head
        assert node.asking.origin.log.count(key=NAME.key) == 0


async def test_an_owner_that_ends_gives_its_openings_up(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, b"all of it")
        node.owning.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key, times=1)
        await node.connect()
        opening = node.begin()
        assert opening is not None
        await gate.reached()
        node.answers[-1].abort()
        assert (await opening).head is None
        assert node.owning.reads.client.reads.in_use == 0
        (await opening).give_up()
        assert (await node.resolve()).head.size == len(b"all of it")
        gate.open()
        await node.connect()  # another connection carries the next ones


async def test_a_fence_meanwhile_keeps_the_head_out(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, b"all of it")
        node.owning.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key, times=1)
        await node.connect()
        opening = node.begin()
        assert opening is not None
        await gate.reached()
        node.asking.fences.raise_object(NAME)
        gate.open()
        ended = await opening
        assert ended.head is not None
        ended.finish()
        assert node.asking.heads.current(NAME) is None


async def test_a_reader_that_leaves_wants_no_answer(tmp_path: Path) -> None:
    async with relay(tmp_path) as node:
        node.owning.origin.store.put(*NAME, b"all of it")
        node.owning.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key, times=1)
        await node.connect()
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(node.resolve())
            await gate.reached()
            reading.cancel()
        gate.open()
        await run_loop_until(lambda: node.owning.heads.current(NAME) is not None)
        assert (await node.resolve()).head == node.owning.heads.current(NAME)
        assert node.owning.origin.log.count(key=NAME.key) == 1
