"""The resolver: which requests it sends, which readers share them, and which heads are stored."""

import asyncio
from dataclasses import replace

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken
from forebay.core.names import ObjectName
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.shared_lookup import ResolvedVersion
from forebay.origin.read_outcomes import ErrorResponse
from forebay.policy.freshness import AlwaysRevalidate, Immutable
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig

FIRST = LookupRequest(NAME, DECISION, Span(0, 8 * BLOCK))
HEAD = LookupRequest(NAME, DECISION, None)
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
