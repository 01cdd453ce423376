"""The fetch of a version: what of a response is stored, and what it brings along."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import ResolvedVersion
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.reads.read_outcomes import ErrorResponse, Uncacheable
from forebay.peers.owners import OwnerResponse, Peers
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig
from harness.held_ssd import HeldSsd

READ = LookupRequest(NAME, DECISION, Span(0, BLOCK))
ALICE = OriginIdentity("alice", ANONYMOUS)
OWN = READ._replace(identity=ALICE)


async def fetched(rig: FetchRig, request: LookupRequest = READ, known: Head | None = None) -> Head:
    found = await rig.versions.fetch(request, known, strict=False)
    assert isinstance(found, ResolvedVersion)
    found.release_flights()
    return found.head


def may_read(rig: FetchRig) -> bool:
    return rig.resolver.is_permitted(NAME, ALICE)


def test_a_request_with_a_span_is_a_get() -> None:
    assert (READ.method, READ._replace(span=None).method) == ("GET", "HEAD")


async def test_a_small_object_is_stored_with_its_head() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        found = await rig.versions.fetch(READ, None, strict=False)
        assert isinstance(found, ResolvedVersion)
        assert found.status == "fetched"
        assert rig.heads.current(NAME) == found.head
        assert bytes(found.flights[0].buffer) == b"all of it"
        assert rig.tiers.memory.has(BlockId(NAME, found.head.generation, 0))
        found.release_flights()


async def test_what_a_fence_forbids_is_answered_and_not_stored() -> None:
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        rig.origin.store.put(*NAME, b"all of it")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()))
        fetching = group.create_task(rig.versions.fetch(READ, None, strict=False))
        await gate.reached()
        rig.fences.raise_object(NAME)
        gate.open()
        found = await fetching
        assert isinstance(found, ResolvedVersion)
        assert rig.heads.current(NAME) is None
        found.release_flights()


class FullSsd(HeldSsd):
    """Has every block."""

    def has(self, block: BlockId) -> bool:
        return True


async def test_a_body_that_is_here_lands_though_the_ssd_has_the_block() -> None:
    async with fetch_rig(ssd=FullSsd()) as rig:
        rig.origin.store.put(*NAME, b"all of it")
        found = await rig.versions.fetch(READ, None, strict=False)
        assert isinstance(found, ResolvedVersion)
        assert bytes(found.flights[0].buffer) == b"all of it"
        found.release_flights()


async def test_another_version_than_the_one_asked_for_is_not_kept() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.create_bucket(NAME.bucket).versioning = "Enabled"
        version = rig.origin.store.put(*NAME, bytes(4 * BLOCK)).version_id
        rig.origin.faults.add(actions.change_headers(x_amz_version_id="another"), times=1)
        by_id = READ._replace(version_id=version)
        assert isinstance(await rig.versions.fetch(by_id, None, strict=False), Uncacheable)
        assert (rig.heads.by_id(NAME, version), rig.heads.by_id(NAME, "another")) == (None, None)
        assert rig.reads.client.reads.in_use == 0
        assert await fetched(rig, by_id) == rig.heads.by_id(NAME, version)
        rig.origin.store.delete(*NAME, version)
        assert isinstance(await rig.versions.fetch(by_id, None, strict=False), ErrorResponse)
        assert rig.heads.by_id(NAME, version) is None


@pytest.mark.parametrize("answer", [actions.FORBIDDEN, actions.NO_SUCH_KEY, actions.MISSING_ETAG])
async def test_a_permission_lasts_until_the_origin_says_anything_else(answer: actions.Action) -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        head = await fetched(rig, OWN)
        assert may_read(rig)
        rig.now += 60
        assert not may_read(rig)
        await fetched(rig, OWN, head)
        assert may_read(rig)
        rig.origin.faults.add(answer)
        assert isinstance(await rig.versions.fetch(OWN, None, strict=True), ErrorResponse | Uncacheable)
        assert not may_read(rig)
        assert rig.heads.current(NAME) is not None, "what is refused to one credential is there for others"


@pytest.mark.parametrize(
    "header", [("last-modified", "Fri, 02 Jan 2026 03:04:05 GMT"), ("x-amz-meta-colour", "red"), ("expires", "0")]
)
async def test_a_304_with_other_facts_fetches_the_head_anew(header: tuple[str, str]) -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        head = await fetched(rig)
        rig.origin.faults.add(actions.ChangeHeaders((header,)))
        found = await rig.versions.fetch(READ, head, strict=False)
        assert isinstance(found, ResolvedVersion)
        assert (found.status, rig.heads.current(NAME)) == ("fetched", found.head)
        assert header[1] in (found.head.facts.last_modified, *dict(found.head.facts.headers).values())


async def test_a_304_renews_the_head_unless_a_later_request_was_faster() -> None:
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        rig.origin.store.put(*NAME, b"old")
        head = await fetched(rig)
        rig.now += 61
        assert (await fetched(rig, known=head)).validated_at == rig.now
        assert rig.heads.current(NAME) == head.with_validation(rig.now)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        late = group.create_task(fetched(rig, known=head))
        await gate.reached()
        rig.origin.store.put(*NAME, b"new")
        rig.now += 1
        new = await fetched(rig)
        gate.open()
        assert await late == head.with_validation(rig.now - 1)
        assert rig.heads.current(NAME) == new


async def test_the_response_of_a_contradicted_size_is_closed() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, bytes(8 * BLOCK))
        head = await fetched(rig)
        wrong = replace(head, facts=replace(head.facts, size=head.size - 1))
        await rig.tiers.forget(NAME)
        rig.heads.store(NAME, wrong, rig.heads.now()[0])
        assert await fetched(rig) == head
        await rig.tasks.wait_idle()
        assert rig.reads.client.reads.in_use == 0


class OwnedElsewhere(Peers):
    """Another worker owns all objects, and answers this."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: OwnerResponse | ErrorResponse | Uncacheable = Uncacheable("nothing")

    def owner(self, _name: ObjectName) -> Any:
        return self

    async def resolve(self, *_: object, **__: object) -> OwnerResponse | ErrorResponse | Uncacheable:
        return self.answer


async def test_what_the_owner_says_is_known_here_as_well() -> None:
    async with fetch_rig() as origin:
        origin.origin.store.put(*NAME, b"content")
        head = await fetched(origin)
    async with fetch_rig(peers=(peers := OwnedElsewhere())) as rig:
        peers.answer = OwnerResponse(head, "revalidated", None)
        assert (await fetched(rig), rig.heads.current(NAME)) == (head, head)
        peers.answer = Uncacheable("changed meanwhile")
        assert await rig.versions.fetch(READ, None, strict=False) == peers.answer
        peers.answer = ErrorResponse(403, (), b"")
        assert await rig.versions.fetch(READ, None, strict=False) == peers.answer
        assert rig.heads.current(NAME) == head
        peers.answer = ErrorResponse(404, (), b"")
        assert await rig.versions.fetch(READ, None, strict=False) == peers.answer
        assert rig.heads.current(NAME) is None
