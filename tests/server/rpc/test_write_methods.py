"""Writes that another worker carries: what this worker forgets of them, and what it keeps in doubt."""

from types import SimpleNamespace
from typing import Any

import pytest

from forebay.core.errors import OriginUnreachable, PeerUnavailable
from forebay.core.fences import Fences, InDoubtWrites
from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import BlockId, Generation, ObjectName, Version
from forebay.metadata.staged_objects import StagedBody, encode_staged
from forebay.peers.frames import Document
from forebay.peers.peer_codec import encode_name
from forebay.server.rpc.rpc_methods import OpenWrites
from forebay.server.rpc.write_methods import WriteMethods
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.tiers import Tiers
from forebay.write.invalidation import Invalidator
from harness.held_ssd import HeldSsd
from harness.ssd_rig import RecordedEvents

NAME, OTHER = ObjectName("bucket", "key"), ObjectName("bucket", "other")
OLD, NEW = Generation(b"old-----"), Generation(b"new-----")
NOW = 1_000.0


def head(generation: Generation = OLD) -> Head:
    return Head(ObjectFacts(Version('"e"', None), 4, "Thu, 01 Jan 2026 00:00:00 GMT", (), True), 4, generation, NOW)


class Catalogue:
    """A pack catalogue whose origin may be away."""

    def __init__(self) -> None:
        self.buckets: list[str] = []

    async def look_for_tombstones(self, bucket: str, keys: list[str]) -> None:
        self.buckets.append(bucket)
        raise OriginUnreachable(f"no tombstones of {keys}")


class Received:
    """The registry of parts, or the digests of writes, of a write tracker."""

    def __init__(self) -> None:
        self.documents: list[Document] = []

    def receive(self, document: Document) -> None:
        self.documents.append(document)


class Tracker:
    """A write tracker."""

    def __init__(self) -> None:
        self.registry, self.digests = Received(), Received()


class Staged:
    """Staged objects: records what is to be installed."""

    def __init__(self) -> None:
        self.installed: list[tuple[object, ...]] = []

    def install(self, *arguments: object) -> None:
        self.installed.append(arguments)


class FlushedSsd(HeldSsd):
    """Counts flushes."""

    def __init__(self) -> None:
        super().__init__()
        self.flushes = 0

    async def flush(self) -> None:
        self.flushes += 1


class Worker:
    """One worker, with two objects in both tiers."""

    def __init__(self) -> None:
        self.ssd, self.catalogue, self.tracker = FlushedSsd(), Catalogue(), Tracker()
        ssd: Any = self.ssd
        catalogue: Any = self.catalogue
        tracker: Any = self.tracker
        self.tiers = Tiers(MemoryTier(1 << 20, RecordedEvents()), ssd)
        self.fences, self.in_doubt = Fences(), InDoubtWrites()
        invalidator = Invalidator(self.fences, self.in_doubt, (), self.tiers, lambda: NOW)
        self.staged = Staged()
        staged: Any = self.staged
        policy: Any = SimpleNamespace(keyring=SimpleNamespace(origin_identities={"job": "identity of the job"}))
        self.methods = WriteMethods(
            invalidator, self.in_doubt, staged, tracker, self.tiers, catalogue, lambda: policy, lambda: NOW
        )
        for name in (NAME, OTHER):
            self.put(name)

    def put(self, name: ObjectName, generation: Generation = OLD) -> None:
        self.tiers.memory.put_head(name, head(generation))
        self.ssd.put_head(name, head(generation))

    def known(self) -> list[ObjectName]:
        return [name for name in (NAME, OTHER) if self.tiers.memory.head(name) is not None]

    def call(self, kind: str, writes: OpenWrites | None = None, **request: object) -> Document:
        return self.methods.methods.ordered[kind](request, writes or OpenWrites()) or {}


def names(*affected: ObjectName) -> list[list[str]]:
    return [encode_name(name) for name in affected]


def test_a_fence_keeps_earlier_state_out() -> None:
    worker = Worker()
    since = worker.fences.now()
    worker.call("fence", names=names(NAME))
    assert worker.known() == [OTHER]
    assert (worker.fences.allows(NAME, since), worker.fences.allows(OTHER, since)) == (False, True)
    assert not worker.in_doubt.covers(NAME, NOW)


def test_a_fence_of_a_bucket_is_one_of_all_its_keys() -> None:
    worker = Worker()
    since = worker.fences.now()
    worker.call("fence", bucket=NAME.bucket, doubt=NOW + 1)
    assert worker.known() == []
    assert not worker.fences.allows(OTHER, since)
    assert worker.in_doubt.covers(OTHER, NOW)


def test_a_fence_leaves_the_blocks_that_are_about_to_be_installed() -> None:
    worker = Worker()
    memory = worker.tiers.memory
    memory.admit(BlockId(NAME, NEW, 0), memoryview(b"news"))
    memory.admit(BlockId(NAME, OLD, 0), memoryview(b"olds"))
    worker.call("fence", names=names(NAME), keep=NEW.hex())
    assert (memory.has(BlockId(NAME, NEW, 0)), memory.has(BlockId(NAME, OLD, 0))) == (True, False)


async def test_a_forgotten_object_is_in_no_tier() -> None:
    worker = Worker()
    assert await worker.methods.methods.unary["forget"]({"names": names(NAME)}) == {}
    assert (worker.known(), list(worker.ssd.heads)) == ([OTHER], [OTHER])


async def test_a_dead_workers_whole_bucket_is_in_doubt() -> None:
    worker, writes = Worker(), OpenWrites()
    worker.call("fence", writes, bucket=NAME.bucket, write=1)
    worker.put(NAME)  # read since then, and perhaps from before the write
    since = worker.fences.now()
    await worker.methods.caller_died(writes)
    assert (worker.known(), list(worker.ssd.heads)) == ([], [])
    assert worker.in_doubt.covers(OTHER, NOW)
    assert not worker.fences.allows(NAME, since)
    assert worker.catalogue.buckets == []


async def test_a_dead_workers_writes_are_forgotten_without_an_origin() -> None:
    worker, writes = Worker(), OpenWrites()
    worker.call("fence", writes, names=names(NAME), write=1)
    worker.call("fence", writes, names=names(OTHER), write=2)
    worker.call("write_ended", writes, write=2)
    for name in (NAME, OTHER):
        worker.put(name)
    await worker.methods.caller_died(writes)
    assert (worker.known(), list(worker.ssd.heads)) == ([OTHER], [OTHER])
    assert (worker.in_doubt.covers(NAME, NOW), worker.in_doubt.covers(OTHER, NOW)) == (True, False)
    assert worker.catalogue.buckets == [NAME.bucket]


def test_writes_in_doubt_are_taken_over_with_their_scope() -> None:
    worker, starting = Worker(), Worker()
    worker.in_doubt.mark_object(NAME, NOW + 1)
    worker.in_doubt.mark_bucket("whole", NOW + 2)
    starting.methods.load_in_doubt_writes(worker.call("in_doubt_writes"))
    assert [starting.in_doubt.until(name) for name in (NAME, OTHER, ObjectName("whole", "k"))] == [NOW + 1, 0, NOW + 2]


def test_an_overflow_of_writes_in_doubt_is_taken_over() -> None:
    starting = Worker()
    starting.methods.load_in_doubt_writes({"writes": [[None, NOW + 1]]})
    assert starting.in_doubt.covers(NAME, NOW)


def test_parts_and_digests_of_other_workers_are_received() -> None:
    worker = Worker()
    worker.call("part", number=1)
    worker.call("wrote", digest="d")
    assert worker.tracker.registry.documents == [{"number": 1}]
    assert worker.tracker.digests.documents == [{"digest": "d"}]


async def test_a_flush_of_the_node_flushes_this_worker() -> None:
    worker = Worker()
    assert await worker.methods.methods.unary["flush"]({}) == {}
    assert worker.ssd.flushes == 1


@pytest.mark.parametrize("keep", ["not hex", 7])
def test_a_fence_that_does_not_fit_changes_nothing(keep: object) -> None:
    worker = Worker()
    with pytest.raises(PeerUnavailable):
        worker.call("fence", names=names(NAME), keep=keep)
    assert worker.known() == [NAME, OTHER]


@pytest.mark.parametrize(("principal", "identity"), [(None, None), ("job", "identity of the job")])
def test_a_staged_body_is_installed_as_its_writer(principal: str | None, identity: str | None) -> None:
    worker, staged = Worker(), StagedBody(NEW, 4, 8, '"e"')
    worker.call("install", name=encode_name(NAME), staged=encode_staged(staged), identity=principal)
    assert worker.staged.installed == [(NAME, staged, identity)]
