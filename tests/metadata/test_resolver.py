"""The resolver: what is believed, what is asked and by whom, and what of it is kept."""

import asyncio
from dataclasses import replace

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken
from forebay.core.names import ObjectName
from forebay.metadata.resolver import LookupRequest
from forebay.metadata.shared_lookup import ResolvedVersion
from forebay.origin.read_outcomes import ErrorResponse
from forebay.policy.freshness import AlwaysRevalidate, Immutable
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FlightsRig, flights_rig

FIRST = LookupRequest(NAME, DECISION, Span(0, 8 * BLOCK))
HEAD = LookupRequest(NAME, DECISION, None)
ALWAYS = replace(DECISION, freshness=AlwaysRevalidate())


async def known(rig: FlightsRig, request: LookupRequest = FIRST, *, no_cache: bool = False) -> ResolvedVersion:
    found = await rig.resolver.resolve(replace(request, no_cache=no_cache))
    assert isinstance(found, ResolvedVersion)
    return found


def asked(rig: FlightsRig) -> int:
    return len(rig.origin.log.requests)


async def test_an_opening_tells_the_head_and_brings_the_first_blocks() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        found = await known(rig)
        assert (found.status, sorted(found.flights), found.joined) == ("fetched", [0, 1], False)
        assert (await known(rig)).status == "fresh"
        assert asked(rig) == 1


async def test_what_came_with_the_head_is_held_until_its_reader_can_follow_it() -> None:
    async with flights_rig(memory=0) as rig:
        content = rig.origin.store.put_synthetic(*NAME, BLOCK)
        found = await known(rig)
        flight = found.flights[0]
        flight.follow()
        await rig.tasks.idle()
        assert (bytes(flight.buffer), found.flights) == (content.expected(Span(0, BLOCK)), {})
        flight.leave()


async def test_what_came_with_the_head_ends_when_its_reader_does_not_follow_it() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 8 * BLOCK)
        rig.origin.faults.add(actions.HoldAfter(0, gate := Gate()), method="GET")
        found = await known(rig)
        await asyncio.sleep(0)
        assert found.flights == {}
        gate.open()
        await rig.tasks.idle()
        assert rig.tiers.memory.occupancy().blocks < 8


async def test_an_opening_goes_on_and_leaves_nothing_when_its_reader_is_cancelled() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()))
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(known(rig))
            await gate.reached()
            reader.cancel()
        gate.open()
        await rig.tasks.idle()
        assert (await known(rig)).status == "fresh"


async def test_who_comes_meanwhile_joins_an_opening_or_a_check() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK)
        for how, count in (("fetched", 1), ("revalidated", 2)):
            rule = rig.origin.faults.add(actions.HoldHead(gate := Gate()))
            async with asyncio.TaskGroup() as group:
                readers = [group.create_task(known(rig)) for _ in range(10)]
                await gate.reached()
                gate.open()
            rig.origin.faults.remove(rule)
            assert [reader.result().status for reader in readers] == [how] * 10
            assert [reader.result().joined for reader in readers] == [False] + [True] * 9
            assert asked(rig) == count
            rig.now += 61


async def test_who_wants_only_the_head_does_not_wait_for_who_wants_bytes() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="GET")
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(known(rig))
            await gate.reached()
            assert (await known(rig, HEAD)).status == "fetched"
            gate.open()
        assert reader.result().status == "fetched"


async def test_nobody_joins_what_was_asked_before_a_write() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            before = group.create_task(known(rig))
            await gate.reached()
            new = rig.origin.store.put(*NAME, b"new")
            rig.fences.raise_object(NAME)
            rig.resolver.fence(NAME)
            after = await known(rig)
            assert after.head.version.etag == new.etag
            gate.open()
        assert before.result().head.version.etag != new.etag
        head = rig.tiers.head(NAME)
        assert head is not None
        assert head.version.etag == new.etag


@pytest.mark.parametrize("bucket", [False, True])
async def test_what_was_asked_before_a_write_is_never_kept(bucket: bool) -> None:
    async with flights_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(known(rig))
            await gate.reached()
            if bucket:
                rig.fences.raise_bucket(NAME.bucket)
                rig.resolver.fence_bucket(NAME.bucket)
            else:
                rig.fences.raise_object(NAME)
                rig.resolver.fence(NAME)
            gate.open()
        assert rig.tiers.head(NAME) is None


async def test_the_fence_of_another_object_is_no_hindrance() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(known(rig))
            await gate.reached()
            other = ObjectName(NAME.bucket, "other")
            rig.fences.raise_object(other)
            rig.resolver.fence(other)
            gate.open()
        assert rig.tiers.head(NAME) is not None


async def test_the_answer_that_was_asked_for_later_stays() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        await known(rig)
        rig.now += 61
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        async with asyncio.TaskGroup() as group:
            older = group.create_task(known(rig))
            await gate.reached()
            rig.now += 1
            new = rig.origin.store.put(*NAME, b"new")
            await known(rig, no_cache=True)
            gate.open()
        assert older.result().status == "revalidated"
        head = rig.tiers.head(NAME)
        assert head is not None
        assert head.version.etag == new.etag


async def test_a_clock_that_was_set_back_does_not_keep_what_is_new_out() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        await known(rig)
        rig.now -= 3600
        new = rig.origin.store.put(*NAME, b"new")
        assert (await known(rig)).head.version.etag == new.etag
        assert (await known(rig)).status == "fresh"


async def test_always_shares_no_check() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        await known(rig)
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(rig.resolver.resolve(replace(FIRST, decision=ALWAYS)))
        assert asked(rig) == 3


async def test_a_doubt_is_as_always_until_it_has_passed_and_then_asks_once_more() -> None:
    async with flights_rig() as rig:
        immutable = replace(DECISION, freshness=Immutable())
        rig.origin.store.put(*NAME, b"content")
        await known(rig)
        rig.doubts.raise_object(NAME, rig.now + 10)
        for moment, how in ((0, "revalidated"), (9, "revalidated"), (1, "revalidated"), (0, "fresh")):
            rig.now += moment
            found = await rig.resolver.resolve(replace(FIRST, decision=immutable))
            assert isinstance(found, ResolvedVersion)
            assert found.status == how


async def test_a_refusal_is_shared_but_never_remembered() -> None:
    async with flights_rig() as rig:
        rig.origin.store.create_bucket(NAME.bucket)
        for _ in range(2):
            found = await rig.resolver.resolve(FIRST)
            assert isinstance(found, ErrorResponse)
        assert asked(rig) == 2


async def test_an_outdated_head_is_forgotten_but_not_its_successor() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put(*NAME, b"old")
        old = (await known(rig)).head
        rig.origin.store.put(*NAME, b"new")
        new = (await known(rig, no_cache=True)).head
        await rig.resolver.invalidate(NAME, old)
        assert rig.tiers.head(NAME) == new
        await rig.resolver.invalidate(NAME, new)
        assert rig.tiers.head(NAME) is None


async def test_what_an_opening_fails_with_all_who_waited_are_told() -> None:
    async with flights_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        rig.origin.faults.add(actions.HoldRequest(gate := Gate()), actions.NOT_MODIFIED)
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(failing(rig)) for _ in range(3)]
            await gate.reached()
            gate.open()
        assert [type(reader.result()) for reader in readers] == [OriginBroken] * 3
        assert asked(rig) == 1


async def failing(rig: FlightsRig) -> Exception:
    try:
        await rig.resolver.resolve(FIRST)
    except OriginBroken as error:
        return error
    raise AssertionError("it was answered")
