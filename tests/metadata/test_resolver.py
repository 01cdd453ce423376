"""The resolver: which requests it sends, which readers share them, and which heads are stored."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken
from forebay.core.heads import Head
from forebay.core.names import Generation, ObjectName, Version
from forebay.metadata.listed_heads import ListedHeads
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.own_writes import OwnWrites
from forebay.metadata.resolution import ResolvedVersion
from forebay.metadata.resolver import Resolver
from forebay.metadata.staged_objects import StagedBody
from forebay.namespace.snapshots import ListedEntry
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.reads.read_outcomes import ErrorResponse
from forebay.policy.freshness import AlwaysRevalidate, Immutable
from forebay.protocol.dates import parse_http_date
from forebay.protocol.xml.listed_page import EntryFacts
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig
from harness.inspection import run_loop_until

FIRST = LookupRequest(NAME, DECISION, Span(0, 8 * BLOCK))
HEAD = LookupRequest(NAME, DECISION, None)
ALICE = OriginIdentity("alice", ANONYMOUS)
ALWAYS = replace(DECISION, freshness=AlwaysRevalidate())


async def resolve_version(rig: FetchRig, request: LookupRequest = FIRST, *, no_cache: bool = False) -> ResolvedVersion:
    found = await rig.resolver.resolve(request._replace(no_cache=no_cache))
    assert isinstance(found, ResolvedVersion)
    return found


def requests_sent(rig: FetchRig) -> int:
    return len(rig.origin.log.requests)


async def test_an_opening_brings_the_head_and_the_first_blocks() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        found = await resolve_version(rig)
        assert (found.status, sorted(found.flights), found.joined) == ("fetched", [0, 1], False)
        assert (await resolve_version(rig)).status == "fresh"
        assert requests_sent(rig) == 1


async def test_flights_with_the_head_live_until_their_reader_runs() -> None:
    async with fetch_rig(memory=0) as rig:
        content = rig.origin.store.put_synthetic(*NAME, BLOCK)
        found = await resolve_version(rig)
        flight = found.flights[0]
        flight.follow()
        await rig.tasks.wait_idle()
        assert (bytes(flight.buffer), found.flights) == (content.expected(Span(0, BLOCK)), {})
        flight.leave()


async def test_flights_that_no_reader_follows_end() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 8 * BLOCK)
        rig.origin.faults.add(actions.HoldAfter(0, gate := Gate()), method="GET")
        found = await resolve_version(rig)
        await asyncio.sleep(0)
        assert found.flights == {}
        gate.open()
        await rig.tasks.wait_idle()
        assert rig.tiers.memory.occupancy().blocks < 8


async def test_an_opening_survives_the_cancellation_of_its_reader() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()))
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(resolve_version(rig))
            await gate.reached()
            reader.cancel()
        gate.open()
        await rig.tasks.wait_idle()
        assert (await resolve_version(rig)).status == "fresh"


async def test_later_readers_join_an_opening_or_a_revalidation() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK)
        for how, count in (("fetched", 1), ("revalidated", 2)):
            rule = rig.origin.faults.add(actions.HoldHead(gate := Gate()))
            async with asyncio.TaskGroup() as group:
                readers = [group.create_task(resolve_version(rig)) for _ in range(10)]
                await gate.reached()
                gate.open()
            rig.origin.faults.remove(rule)
            assert [reader.result().status for reader in readers] == [how] * 10
            assert [reader.result().joined for reader in readers] == [False] + [True] * 9
            assert requests_sent(rig) == count
            rig.now += 61


async def test_a_head_lookup_does_not_wait_for_a_get() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="GET")
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(resolve_version(rig))
            await gate.reached()
            assert (await resolve_version(rig, HEAD)).status == "fetched"
            gate.open()
        assert reader.result().status == "fetched"


async def test_no_reader_joins_a_lookup_sent_before_a_write() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            before = group.create_task(resolve_version(rig))
            await gate.reached()
            new = rig.origin.store.put(*NAME, b"new")
            rig.fences.raise_object(NAME)
            rig.lookups.fence(NAME)
            after = await resolve_version(rig)
            assert after.head.version.etag == new.etag
            gate.open()
        assert before.result().head.version.etag != new.etag
        assert (await resolve_version(rig)).head.version.etag == new.etag


@pytest.mark.parametrize("bucket", [False, True])
async def test_a_head_requested_before_a_write_is_never_stored(bucket: bool) -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(resolve_version(rig))
            await gate.reached()
            if bucket:
                rig.fences.raise_bucket(NAME.bucket)
                rig.lookups.fence_bucket(NAME.bucket)
            else:
                rig.fences.raise_object(NAME)
                rig.lookups.fence(NAME)
            gate.open()
        assert rig.tiers.head(NAME) is None


async def test_a_fence_concerns_only_its_own_object() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(resolve_version(rig))
            await gate.reached()
            other = ObjectName(NAME.bucket, "other")
            rig.fences.raise_object(other)
            rig.lookups.fence(other)
            gate.open()
        assert rig.tiers.head(NAME) is not None


async def test_the_head_requested_later_stays() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        await resolve_version(rig)
        rig.now += 61
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            older = group.create_task(resolve_version(rig))
            await gate.reached()
            rig.now += 1
            new = rig.origin.store.put(*NAME, b"new")
            await resolve_version(rig, no_cache=True)
            gate.open()
        assert older.result().status == "revalidated"
        head = rig.tiers.head(NAME)
        assert head is not None
        assert head.version.etag == new.etag


async def test_a_new_head_is_stored_after_the_clock_was_set_back() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        await resolve_version(rig)
        rig.now -= 3600
        new = rig.origin.store.put(*NAME, b"new")
        assert (await resolve_version(rig)).head.version.etag == new.etag
        assert (await resolve_version(rig)).status == "fresh"


async def test_always_shares_no_revalidation() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        await resolve_version(rig)
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(rig.resolver.resolve(FIRST._replace(decision=ALWAYS)))
        assert requests_sent(rig) == 3


async def test_an_in_doubt_write_forces_revalidation_and_one_after_it() -> None:
    async with fetch_rig() as rig:
        immutable = replace(DECISION, freshness=Immutable())
        rig.origin.store.put(*NAME, b"content")
        await resolve_version(rig)
        rig.in_doubt_writes.mark_object(NAME, rig.now + 10)
        for moment, how in ((0, "revalidated"), (9, "revalidated"), (1, "revalidated"), (0, "fresh")):
            rig.now += moment
            found = await rig.resolver.resolve(FIRST._replace(decision=immutable))
            assert isinstance(found, ResolvedVersion)
            assert found.status == how


async def test_an_error_response_is_shared_but_never_stored() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.create_bucket(NAME.bucket)
        for _ in range(2):
            found = await rig.resolver.resolve(FIRST)
            assert isinstance(found, ErrorResponse)
        assert requests_sent(rig) == 2


async def test_an_outdated_head_is_forgotten_but_not_its_successor() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        old = (await resolve_version(rig)).head
        rig.origin.store.put(*NAME, b"new")
        new = (await resolve_version(rig, no_cache=True)).head
        await rig.resolver.invalidate(NAME, old)
        assert rig.tiers.head(NAME) == new
        await rig.resolver.invalidate(NAME, new)
        assert rig.tiers.head(NAME) is None


async def test_a_failed_opening_fails_all_its_readers() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        rig.origin.faults.add(actions.HoldRequest(gate := Gate()), actions.NOT_MODIFIED)
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(failing(rig)) for _ in range(3)]
            await gate.reached()
            gate.open()
        assert [type(reader.result()) for reader in readers] == [OriginBroken] * 3
        assert requests_sent(rig) == rig.reads.client.limits.attempts


async def failing(rig: FetchRig) -> Exception:
    try:
        await rig.resolver.resolve(FIRST)
    except OriginBroken as error:
        return error
    raise AssertionError("it was answered")


async def test_a_thousand_readers_of_a_check_that_hangs_cost_two_requests() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK)
        await resolve_version(rig)
        rig.now += 61
        before = requests_sent(rig)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(resolve_version(rig)) for _ in range(1000)]
            await gate.reached()
            rig.timers.advance(2.5)
        assert {reader.result().status for reader in readers} == {"revalidated"}
        assert requests_sent(rig) - before == 2
        gate.open()


async def test_a_write_during_a_hedged_opening_keeps_its_head_out() -> None:
    """The hedge is sent after the write, but the opening began before it: its head is not stored."""
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            before = group.create_task(resolve_version(rig))
            await gate.reached()
            rig.fences.raise_object(NAME)
            rig.lookups.fence(NAME)
            rig.timers.advance(2.5)
        assert before.result().status == "fetched"
        assert rig.heads.current(NAME) is None
        gate.open()


async def test_an_outdated_head_by_id_takes_no_other_head_with_it() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        current = (await resolve_version(rig)).head
        by_id = replace(current, by_id=True, facts=replace(current.facts, version=Version(current.version.etag, "v1")))
        rig.heads.store(NAME, by_id, rig.heads.now().tick)
        await rig.resolver.invalidate(NAME, by_id)
        assert (rig.heads.by_id(NAME, "v1"), rig.heads.current(NAME)) == (None, current)


async def test_a_stale_or_unpermitted_head_is_not_used_without_a_request() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        head = (await resolve_version(rig)).head
        for identity, seconds, expected in ((None, 0, head), (ALICE, 0, None), (None, 61, None)):
            rig.now += seconds
            request = FIRST._replace(identity=identity)
            assert rig.resolver.fresh_head(NAME, DECISION, no_cache=False, identity=identity) == expected
            found = rig.resolver.resolve_nowait(request)
            assert (found.head if found is not None else None) == expected


async def test_a_write_in_doubt_may_have_made_an_object() -> None:
    async with fetch_rig() as rig:
        assert not rig.resolver.is_unsettled(NAME)
        rig.in_doubt_writes.mark_object(NAME, rig.now + 10)
        assert rig.resolver.is_unsettled(NAME)
        rig.now += 10
        assert not rig.resolver.is_unsettled(NAME)


async def test_the_origin_decides_who_may_read_a_fresh_head() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        await resolve_version(rig)
        own = FIRST._replace(identity=ALICE)
        assert [(await resolve_version(rig, own)).status for _ in range(2)] == ["revalidated", "fresh"]
        rig.origin.faults.add(actions.FORBIDDEN)
        assert isinstance(await rig.resolver.resolve(own._replace(no_cache=True)), ErrorResponse)
        assert isinstance(await rig.resolver.resolve(own), ErrorResponse), "the refusal revoked what it had"
        assert (await resolve_version(rig)).status == "fresh", "and concerns no other reader"


class ListedNow:
    """Lists an object as it is known."""

    def __init__(self, head: Head, rig: FetchRig) -> None:
        at = datetime.fromtimestamp(parse_http_date(head.facts.last_modified) or 0.0, UTC)
        facts = EntryFacts(at.strftime("%Y-%m-%dT%H:%M:%S.000Z"), head.version.etag, head.size)
        self.facts, self.rig = facts, rig

    def is_listed(self, name: ObjectName) -> bool:
        return name == NAME

    async def entry(self, name: ObjectName) -> ListedEntry | None:
        return ListedEntry(self.facts, self.rig.now - 1) if name == NAME else None


async def test_a_listing_renews_no_head_for_a_credential_or_no_cache() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        head = (await resolve_version(rig)).head
        rig.now += 61
        listed = ListedHeads(ListedNow(head, rig), rig.heads, rig.replacement, rig.heard)
        resolver = Resolver(
            rig.versions,
            rig.heads,
            rig.lookups,
            rig.resolver.permissions,
            rig.checksums,
            OwnWrites(rig.staged),
            rig.replacement,
            rig.openings,
            listed,
        )
        rig.origin.faults.add(actions.FORBIDDEN)
        assert isinstance(await resolver.resolve(FIRST._replace(identity=ALICE)), ErrorResponse)
        count = requests_sent(rig)
        found = await resolver.resolve(FIRST)
        assert isinstance(found, ResolvedVersion)
        assert (found.status, requests_sent(rig)) == ("fresh", count)
        rig.now += 61
        assert isinstance(await resolver.resolve(FIRST._replace(no_cache=True)), ErrorResponse)


async def first_bytes(rig: FetchRig, request: LookupRequest) -> tuple[str, bytes]:
    """The ETag of the version found, and the bytes that came with it, as its reader sees them."""
    found = await resolve_version(rig, request)
    return found.head.version.etag, b"".join(bytes(flight.buffer) for flight in found.flights.values())


async def known(rig: FetchRig) -> None:
    await run_loop_until(lambda: rig.heads.current(NAME) is not None)


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_credentials_share_blocks_of_the_same_version_only(is_replaced: bool) -> None:
    async with fetch_rig() as rig:
        stored = rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="GET", times=1)
        async with asyncio.TaskGroup() as group:
            others = group.create_task(first_bytes(rig, FIRST))
            await gate.reached()
            new = rig.origin.store.put(*NAME, b"new") if is_replaced else stored
            own = group.create_task(first_bytes(rig, FIRST._replace(identity=ALICE)))
            await known(rig)
            gate.open()
        assert own.result() == (new.etag, b"" if is_replaced else b"old")
        assert others.result() == (stored.etag, b"old")


async def test_a_refused_opening_is_no_refusal_to_another_credential() -> None:
    async with fetch_rig() as rig:
        stored = rig.origin.store.put(*NAME, b"content")
        rig.origin.faults.add(actions.HoldRequest(gate := Gate()), actions.FORBIDDEN, method="GET", times=1)
        async with asyncio.TaskGroup() as group:
            others = group.create_task(rig.resolver.resolve(FIRST))
            await gate.reached()
            own = group.create_task(first_bytes(rig, FIRST._replace(identity=ALICE)))
            await known(rig)
            gate.open()
        assert isinstance(others.result(), ErrorResponse)
        assert own.result() == (stored.etag, b"")


async def test_another_credential_that_is_refused_gets_no_blocks() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="GET", times=1)
        rig.origin.faults.add(actions.HoldRequest(refused := Gate()), actions.FORBIDDEN, method="HEAD")
        async with asyncio.TaskGroup() as group:
            group.create_task(resolve_version(rig))
            await gate.reached()
            own = group.create_task(rig.resolver.resolve(FIRST._replace(identity=ALICE)))
            await refused.reached()
            refused.open()
            gate.open()
        assert isinstance(own.result(), ErrorResponse)


async def test_the_current_head_answers_no_reader_of_another_version() -> None:
    async with fetch_rig() as rig:
        stored = rig.origin.store.put(*NAME, b"content")
        await resolve_version(rig)
        assert rig.resolver.resolve_nowait(FIRST) is not None
        assert rig.resolver.resolve_nowait(FIRST._replace(version_id="v1")) is None
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        rig.staged.install(NAME, StagedBody(Generation(b"12345678"), BLOCK, 7, stored.etag))
        assert rig.resolver.resolve_nowait(FIRST) is None, "a write is being installed"
        gate.open()
        await rig.staged.wait_installed(NAME)
