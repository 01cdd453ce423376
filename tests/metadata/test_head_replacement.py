"""Head replacement: the old version is gone for good before anybody is told of the new one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import SizeContradicted, VersionChanged
from forebay.core.events import HeadContradicted
from forebay.core.fences import Tick
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import Generation, ObjectName, Version
from forebay.fetch.ordered_body import OrderedBody
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.origin.reads.read_outcomes import ErrorResponse
from forebay.policy.freshness import Immutable
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig
from harness.held_ssd import HeldSsd

READ = LookupRequest(NAME, replace(DECISION, freshness=Immutable()), Span(0, BLOCK))
NO_CACHE = READ._replace(no_cache=True)


@asynccontextmanager
async def with_old_version() -> AsyncIterator[tuple[FetchRig, HeldSsd, Head]]:
    """A rig that knows the old version, on the SSD alone; the origin has the new one."""
    ssd = HeldSsd()
    async with fetch_rig(ssd=ssd) as rig:
        rig.origin.store.put(*NAME, b"old")
        old = await resolve_version(rig, READ)
        await rig.tasks.wait_idle()
        rig.tiers.memory.forget(NAME)
        rig.now += 1
        rig.origin.store.put(*NAME, b"new")
        ssd.gate = Gate()
        yield rig, ssd, old


async def resolve_version(rig: FetchRig, request: LookupRequest) -> Head:
    return version_of(await rig.resolver.resolve(request))


async def read(body: OrderedBody) -> None:
    try:
        async for _ in body.pieces():
            raise AssertionError("a byte of the old version")
    finally:
        body.close()


def version_of(resolution: Resolution) -> Head:
    assert isinstance(resolution, ResolvedVersion), resolution
    return resolution.head


async def test_the_new_version_is_told_once_the_old_is_forgotten() -> None:
    async with with_old_version() as (rig, ssd, old), asyncio.TaskGroup() as group:
        reader = group.create_task(rig.resolver.resolve(NO_CACHE))
        assert ssd.gate is not None
        await ssd.gate.reached()
        assert not reader.done()
        assert ssd.heads[NAME] == old, "nothing of the new version is there yet"
        assert await resolve_version(rig, READ) == old, "which may still be told"
        ssd.gate.open()
        new = version_of(await reader)
        assert new.version != old.version
        assert ssd.heads[NAME] == rig.heads.current(NAME) == await resolve_version(rig, READ) == new


async def test_a_second_reader_of_the_new_version_waits_as_well() -> None:
    async with with_old_version() as (rig, ssd, old), asyncio.TaskGroup() as group:
        assert ssd.gate is not None
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=2)
        readers = [group.create_task(rig.resolver.resolve(NO_CACHE)) for _ in range(2)]
        await gate.reached(2)
        gate.open()
        await ssd.gate.reached()
        later = group.create_task(rig.resolver.resolve(NO_CACHE))
        await rig.origin.log.wait_for(4)
        assert not any(reader.done() for reader in (*readers, later))
        ssd.gate.open()
        assert {version_of(await reader).version for reader in (*readers, later)} != {old.version}
        assert ssd.removals == 1


async def test_what_was_asked_before_does_not_bring_it_back() -> None:
    async with with_old_version() as (rig, ssd, old), asyncio.TaskGroup() as group:
        assert ssd.gate is not None
        since = rig.heads.now().tick
        reader = group.create_task(rig.resolver.resolve(NO_CACHE))
        await ssd.gate.reached()
        rig.heads.store(NAME, old.with_validation(rig.now), since)
        assert ssd.heads[NAME] == old
        ssd.gate.open()
        new = version_of(await reader)
        rig.heads.store(NAME, old.with_validation(rig.now), since)
        assert rig.heads.current(NAME) == new


async def test_a_write_meanwhile_forbids_to_store_the_new_version() -> None:
    async with with_old_version() as (rig, ssd, _), asyncio.TaskGroup() as group:
        assert ssd.gate is not None
        reader = group.create_task(rig.resolver.resolve(NO_CACHE))
        await ssd.gate.reached()
        rig.fences.raise_object(NAME)
        ssd.gate.open()
        await reader
        assert rig.heads.current(NAME) is None


async def test_a_write_before_it_forbids_to_store_the_new_version() -> None:
    async with with_old_version() as (rig, ssd, old):
        ssd.gate = None
        since = rig.heads.now().tick
        rig.fences.raise_object(NAME)
        new = replace(old, facts=replace(old.facts, version=Version('"new"')), validated_at=rig.now)
        assert await rig.replacement.store(NAME, new, since) == since
        assert rig.heads.current(NAME) is None, "nor is the old one there"


async def test_nothing_is_stored_while_others_forget_the_old_version() -> None:
    """This worker has done so already, and knows no version."""
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        forgotten, gate = [], Gate()

        async def forget(name: ObjectName, _keep: Generation | None, since: Tick) -> Tick | None:
            forgotten.append(name)
            tick = rig.fences.supersede(name, since)
            rig.tiers.memory.forget(name)
            await gate.wait_open()
            return tick

        replacement = HeadReplacement(rig.heads, rig.lookups, forget, rig.tasks, rig.heard)
        old, new = (head_of(ObjectFacts(Version(etag), 5, "", ()), BLOCK, rig.now) for etag in ('"old"', '"new"'))
        rig.heads.store(NAME, old, rig.heads.now().tick)
        first = group.create_task(replacement.store(NAME, new, rig.heads.now().tick))
        await gate.reached()
        since = rig.heads.now().tick
        assert not replacement.try_store(NAME, new, since)
        assert not replacement.try_store_over(None, NAME, new, since)
        assert replacement.try_destination_over(None, NAME, new, since) is None
        rig.heads.store(NAME, old, since)  # as one that was read of the shared tier meanwhile
        removal = group.create_task(replacement.remove(NAME, old))
        await asyncio.sleep(0)
        assert len(forgotten) == 1
        rig.tiers.memory.forget(NAME)
        gate.open()
        await first
        await removal
        assert (rig.heads.current(NAME), len(forgotten)) == (new, 1)
        await replacement.remove(NAME, old)
        assert rig.heads.current(NAME) == new, "it is another one"
        assert not replacement.try_store(NAME, old, rig.heads.now().tick)
        assert replacement.try_destination_over(new, NAME, old, rig.heads.now().tick) is None


@pytest.mark.parametrize("seconds", [-1, 0, 1])
async def test_blocks_stay_of_a_version_requested_after_a_missing_one(seconds: int) -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        head = await resolve_version(rig, READ)
        await rig.tasks.wait_idle()
        await rig.replacement.remove_deleted(NAME, head.validated_at - seconds)
        assert (rig.heads.current(NAME), rig.tiers.has(rig.block(head, 0))) == (None, seconds > 0)


async def test_an_earlier_request_does_not_replace_a_later_one() -> None:
    async with fetch_rig() as rig:
        since = rig.heads.now().tick
        old, new = (
            head_of(ObjectFacts(Version(etag), 5, "", ()), BLOCK, validated_at)
            for etag, validated_at in (('"old"', rig.now - 1), ('"new"', rig.now))
        )
        rig.heads.store(NAME, new, since)
        assert await rig.replacement.store(NAME, old, since) == since
        assert rig.heads.current(NAME) != old


async def test_a_deletion_is_told_once_the_object_is_forgotten() -> None:
    async with with_old_version() as (rig, ssd, _), asyncio.TaskGroup() as group:
        assert ssd.gate is not None
        rig.origin.store.delete(*NAME)
        reader = group.create_task(rig.resolver.resolve(NO_CACHE))
        await ssd.gate.reached()
        assert not reader.done()
        ssd.gate.open()
        refused = await reader
        assert isinstance(refused, ErrorResponse)
        assert (refused.status, NAME in ssd.heads) == (404, False)


async def test_a_version_whose_blocks_are_gone_is_forgotten() -> None:
    async with with_old_version() as (rig, ssd, old), asyncio.TaskGroup() as group:
        assert ssd.gate is not None
        with pytest.raises(VersionChanged):
            await read(rig.body(old, Span(0, 3)))
        found = group.create_task(rig.resolver.invalidate(NAME, old))
        await ssd.gate.reached()
        found.cancel()
        ssd.gate.open()
        await rig.tasks.wait_idle()
        assert NAME not in ssd.heads, "also if the reader leaves"
        await rig.resolver.invalidate(NAME, old)
        assert ssd.removals == 1


async def test_a_miss_and_a_confirmation_forget_nothing() -> None:
    ssd = HeldSsd()
    async with fetch_rig(ssd=ssd) as rig:
        rig.origin.store.put(*NAME, b"content")
        for request in (READ, NO_CACHE):
            await resolve_version(rig, request)
        assert ssd.removals == 0


@pytest.mark.parametrize("by_id", [False, True])
async def test_neither_of_two_sizes_is_believed(by_id: bool) -> None:
    ssd = HeldSsd()
    async with fetch_rig(ssd=ssd) as rig:
        rig.origin.store.put(*NAME, b"content")
        known = replace(await resolve_version(rig, READ), by_id=by_id)
        since = rig.heads.now().tick
        rig.heads.store(NAME, known, since)
        lie = replace(known, facts=replace(known.facts, size=3))
        with pytest.raises(SizeContradicted):
            await rig.replacement.store(NAME, lie, since)
        assert (rig.heads.by_id(NAME, "") is None) if by_id else (rig.heads.current(NAME) is None)
        assert by_id or NAME not in ssd.heads
        assert len(rig.heard.of(HeadContradicted)) == 1


async def test_contradictions_are_warned_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        for seconds in (0, 59, 2):
            rig.now += seconds
            known = await resolve_version(rig, READ)
            with pytest.raises(SizeContradicted):
                await rig.replacement.store(
                    NAME, replace(known, facts=replace(known.facts, size=3)), rig.heads.now().tick
                )
        assert len(caplog.records) == 2
        assert len(rig.heard.of(HeadContradicted)) == 3


async def test_a_contradicted_head_is_looked_up_anew() -> None:
    async with fetch_rig() as rig:
        etag = rig.origin.store.put(*NAME, b"content").etag
        await resolve_version(rig, READ)
        rig.origin.faults.add(actions.Respond(200, headers=(("ETag", etag),)), method="GET", times=1)
        assert (await resolve_version(rig, NO_CACHE)).size == len(b"content")
        assert "If-None-Match" not in rig.origin.log.requests[-1].headers


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_late_answer_replaces_what_came_before_it(is_deleted: bool) -> None:
    """The origin carries the first request out last: it shows what has become of the version that the second found."""
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldRequest(gate := Gate()), times=1)
        late = group.create_task(rig.resolver.resolve(READ))
        await gate.reached()
        rig.now += 1
        old = await resolve_version(rig, READ._replace(span=None))
        replace_at_origin(rig, is_deleted=is_deleted)
        gate.open()
        assert_newer(await late, old)
        assert_newer(await rig.resolver.resolve(READ), old)


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_late_answer_does_not_bring_it_back(is_deleted: bool) -> None:
    """The origin has carried the first request out first, and its response comes last."""
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        late = group.create_task(rig.resolver.resolve(READ._replace(span=None)))
        await gate.reached()
        rig.now += 1
        replace_at_origin(rig, is_deleted=is_deleted)
        answer = await rig.resolver.resolve(READ)
        joined = group.create_task(rig.resolver.resolve(READ._replace(span=None)))
        gate.open()
        old = version_of(await late)
        assert_newer(answer, old)
        assert_newer(await joined, old)
        assert_newer(await rig.resolver.resolve(READ), old)


def replace_at_origin(rig: FetchRig, *, is_deleted: bool) -> None:
    if is_deleted:
        rig.origin.store.delete(*NAME)
    else:
        rig.origin.store.put(*NAME, b"new")


def assert_newer(answer: Resolution, old: Head) -> None:
    if isinstance(answer, ErrorResponse):
        assert answer.status == 404
    else:
        assert version_of(answer).version != old.version, "the old version"


async def test_a_missing_object_without_another_request_raises_no_fence() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.create_bucket(NAME.bucket)
        before = rig.fences.now()
        assert isinstance(await rig.resolver.resolve(READ), ErrorResponse)
        assert rig.fences.now() == before, "a fence for each missing key would fill their table"


async def test_a_later_request_does_not_bring_it_back() -> None:
    """The origin carries out the second request first; its response comes last."""
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldRequest(held := Gate()), method="GET", times=1)
        first = group.create_task(rig.resolver.resolve(READ))
        await held.reached()
        rig.now += 1
        rig.origin.faults.add(actions.HoldHead(late := Gate()), method="HEAD", times=1)
        second = group.create_task(rig.resolver.resolve(READ._replace(span=None)))
        await late.reached()
        rig.origin.store.put(*NAME, b"new")
        held.open()
        newer = version_of(await first)
        late.open()
        old = version_of(await second)
        assert newer.version != old.version
        assert (await resolve_version(rig, READ)).version == newer.version, "the old version"
        assert not rig.heads.requests


async def test_two_late_answers_do_not_bring_it_back() -> None:
    """What the first request shows can't be cached; two others show what it has found replaced."""
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        rig.origin.store.put(*NAME, b"old")
        since = rig.heads.now().tick
        rig.fences.raise_object(NAME)
        late: list[tuple[Gate, asyncio.Task[Resolution]]] = []
        for _ in range(2):
            rig.now += 1
            rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="HEAD", times=1)
            fetched = rig.versions.fetch(READ._replace(span=None), None, strict=True)
            late.append((gate, group.create_task(fetched)))
            await gate.reached()
        newer = head_of(ObjectFacts(Version('"new"'), 3, "", ()), BLOCK, rig.now - 1)
        assert rig.heads.store(NAME, newer, since) is None
        for gate, answer in late:
            gate.open()
            assert version_of(await answer).version != newer.version
            assert rig.heads.current(NAME) is None, "the old version"
        assert not rig.heads.requests
