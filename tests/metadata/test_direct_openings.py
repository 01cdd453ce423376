"""Openings without a task: their lookups can be joined, taken over, and given up."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken
from forebay.core.events import BlockFetched, Event, FlightStarted
from forebay.core.fences import Tick
from forebay.core.heads import ObjectFacts, head_of
from forebay.core.names import BlockId, Generation, ObjectName, Version
from forebay.core.requester import BACKGROUND, requester
from forebay.metadata.direct_openings import DirectOpening
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.metadata.shared_lookup import LookupKey
from forebay.metadata.staged_objects import StagedBody
from forebay.origin.reads.read_outcomes import ErrorResponse
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig
from harness.inspection import run_loop_until
from harness.ssd_rig import RecordedEvents

KEY = LookupKey("GET", None)
"""What an opening is shared under."""
READ = LookupRequest(NAME, DECISION, Span(0, BLOCK))
SIZE = 1234


class Reader:
    """Begins an opening over a connection that is idle, and notes how it ends."""

    def __init__(self, rig: FetchRig) -> None:
        self.rig = rig
        self.ended: asyncio.Future[tuple[bytes | None, bytes | None]] = asyncio.get_running_loop().create_future()

    async def connect(self) -> "Reader":
        other = ObjectName("bucket", "connection")
        self.rig.origin.store.put(*other, b"x")
        found = await self.rig.versions.fetch(READ._replace(name=other), None, strict=False)
        assert isinstance(found, ResolvedVersion)
        found.release_flights()
        return self

    def begin(self, *, checksums: bool = False) -> DirectOpening | None:
        return self.rig.openings.begin(NAME, DECISION, Span(0, BLOCK), "reader", self.end, checksums=checksums)

    def end(self, opening: DirectOpening) -> None:
        head, body = opening.head, opening.body
        opening.finish()
        if head is None:
            opening.give_up()
        etag = head.version.etag.encode() if head is not None else None
        self.ended.set_result((etag, bytes(body) if body is not None else None))


async def begin_held(rig: FetchRig) -> tuple[Reader, DirectOpening, Gate]:
    """An opening under way: its first request is held at the origin until the gate opens."""
    rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key, times=1)
    reader = await Reader(rig).connect()
    opening = reader.begin()
    assert opening is not None
    return reader, opening, gate


async def share(rig: FetchRig) -> tuple[Resolution, bool]:
    """What a reader with a task gets."""
    found, joined = await rig.lookups.share(NAME, KEY, lambda sent: rig.versions.open(READ, sent, strict=False))
    if isinstance(found, ResolvedVersion):
        found.release_flights()
    return found, joined


async def opened(rig: FetchRig) -> Resolution | None:
    return await rig.openings.open(READ, partial(rig.versions.open, READ, strict=False))


async def test_an_object_is_stored_and_landed_and_whoever_waits_gets_it() -> None:
    async with fetch_rig() as rig:
        stored = rig.origin.store.put(*NAME, b"all of it")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key)
        reader = await Reader(rig).connect()
        assert reader.begin() is not None
        assert reader.begin() is None  # one request for an object
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(share(rig))
            await gate.reached()
            gate.open()
        assert await reader.ended == (stored.etag.encode(), b"all of it")
        found, joined = waiting.result()
        assert isinstance(found, ResolvedVersion)
        assert (joined, rig.heads.current(NAME)) == (True, found.head)
        assert rig.tiers.memory.has(BlockId(NAME, found.head.generation, 0))
        assert rig.origin.log.count(key=NAME.key) == 1


async def test_bytes_of_one_reader_need_no_flight_and_are_counted() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        reader = await Reader(rig).connect()
        started = len(rig.heard.of(FlightStarted))
        assert reader.begin() is not None
        assert (await reader.ended)[1] == b"all of it"
        assert rig.heard.of(BlockFetched) == [BlockFetched(len(b"all of it"), DECISION.rule)]
        assert len(rig.heard.of(FlightStarted)) == started


async def test_the_next_reader_goes_on_with_what_was_given_up() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, bytes(2 * BLOCK))
        reader = await Reader(rig).connect()
        assert reader.begin() is not None
        assert await reader.ended == (None, None)
        found, _ = await share(rig)
        assert isinstance(found, ResolvedVersion)
        assert (found.head.size, rig.origin.log.count(key=NAME.key)) == (2 * BLOCK, 1)


class FailingOnce(RecordedEvents):
    """An observer that fails at the first block of NAME that is fetched."""

    has_failed = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, BlockFetched) and event.size == SIZE and not self.has_failed:
            self.has_failed = True
            raise ArithmeticError("an observer of the test's")
        super().__call__(event)


async def test_a_task_does_what_failed_on_the_way(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for an opening for ever, whatever went wrong in it."""
    async with fetch_rig(heard=(heard := FailingOnce())) as rig:
        rig.origin.store.put(*NAME, bytes(SIZE))
        reader = await Reader(rig).connect()
        assert reader.begin() is not None
        async with asyncio.timeout(30):
            assert await reader.ended == (None, None)
            assert heard.has_failed
            assert "failed" in caplog.text
            found, _ = await share(rig)
        assert isinstance(found, ResolvedVersion)
        assert (found.head.size, rig.reads.client.reads.in_use) == (SIZE, 0)


async def test_what_is_given_up_behind_a_fence_is_ended() -> None:
    """Nobody finds it any more."""
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, bytes(2 * BLOCK))
        reader, _, gate = await begin_held(rig)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(share(rig))
            await gate.reached()
            rig.lookups.fence(NAME)
            gate.open()
        assert await reader.ended == (None, None)
        assert isinstance(waiting.result()[0], ResolvedVersion)
        assert (rig.origin.log.count(key=NAME.key), rig.reads.client.reads.in_use) == (2, 0)


async def test_readers_start_anew_where_nobody_goes_on() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        _, opening, gate = await begin_held(rig)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(share(rig))
            await gate.reached()
            opening.close()
        assert isinstance(waiting.result()[0], ResolvedVersion)
        assert (rig.origin.log.count(key=NAME.key), rig.reads.client.reads.in_use) == (2, 0)
        gate.open()


async def test_what_a_fence_forbids_is_answered_and_not_stored() -> None:
    async with fetch_rig() as rig:
        stored = rig.origin.store.put(*NAME, b"all of it")
        reader, _, gate = await begin_held(rig)
        await gate.reached()
        rig.fences.raise_object(NAME)
        gate.open()
        assert await reader.ended == (stored.etag.encode(), b"all of it")
        assert rig.heads.current(NAME) is None


async def test_what_was_found_deleted_meanwhile_is_not_stored() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        reader, _, gate = await begin_held(rig)
        await gate.reached()
        rig.origin.store.delete(*NAME)
        assert isinstance(await rig.versions.fetch(READ, None, strict=True), ErrorResponse)
        gate.open()
        await reader.ended
        assert rig.heads.current(NAME) is None


async def test_what_is_in_doubt_or_written_meanwhile_needs_a_task() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        reader = await Reader(rig).connect()
        rig.in_doubt_writes.mark_object(NAME, rig.now + 60)
        assert reader.begin() is None
        assert rig.lookups.find(NAME, KEY) is None


async def test_what_is_being_installed_needs_a_task() -> None:
    async with fetch_rig() as rig:
        stored = rig.origin.store.put(*NAME, b"content")
        reader = await Reader(rig).connect()
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key, times=1)
        rig.staged.install(NAME, StagedBody(Generation(b"12345678"), BLOCK, 7, stored.etag))
        assert reader.begin() is None
        gate.open()
        await rig.staged.wait_installed(NAME)


async def test_a_response_without_the_checksums_wanted_needs_a_task() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        reader = await Reader(rig).connect()
        rig.origin.faults.add(actions.change_headers(etag='"a-2"'), key=NAME.key)
        opening = reader.begin(checksums=True)
        assert opening is not None
        assert await reader.ended == (None, None)
        opening.abandon()
        assert rig.heads.current(NAME) is None


async def test_a_reader_of_the_middle_opens_in_full() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        await Reader(rig).connect()
        middle = READ._replace(span=Span(1, BLOCK))
        assert await rig.openings.open(middle, partial(rig.versions.open, middle, strict=False)) is None
        assert rig.origin.log.count(key=NAME.key) == 0


async def test_another_version_that_came_first_is_not_replaced_here() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        reader, _, gate = await begin_held(rig)
        async with asyncio.TaskGroup() as group:
            group.create_task(share(rig))  # starts anew: the reader that began finds the head, and need not come
            await gate.reached()
            rig.tiers.put_head(NAME, head_of(ObjectFacts(Version('"other"'), 9, "", ()), BLOCK, rig.now))
            gate.open()
            assert await reader.ended == (None, None)
        assert rig.reads.client.reads.in_use == 0


async def test_a_reader_with_a_task_waits_once() -> None:
    async with fetch_rig() as rig:
        stored = rig.origin.store.put(*NAME, b"all of it")
        await Reader(rig).connect()
        found = await opened(rig)
        assert isinstance(found, ResolvedVersion)
        assert (found.head.version.etag, bytes(found.flights[0].buffer)) == (stored.etag, b"all of it")
        found.release_flights()


async def test_who_comes_when_a_reader_with_a_task_goes_on_joins_it() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, bytes(4 * BLOCK))
        await Reader(rig).connect()
        late: list[asyncio.Task[None]] = []

        async def read() -> None:
            found = await rig.resolver.resolve(READ, leads=True)
            assert isinstance(found, ResolvedVersion)
            found.release_flights()

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            while (lookup := rig.lookups.find(NAME, KEY)) is None:  # noqa: ASYNC110 # nobody tells
                await asyncio.sleep(0)
            while not lookup.is_done:
                late.append(group.create_task(read()))
                await asyncio.sleep(0)
        assert late
        assert rig.origin.log.count(key=NAME.key) == 1


async def test_a_reader_that_is_cancelled_leaves_nothing() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key, times=1)
        await Reader(rig).connect()
        async with asyncio.TaskGroup() as group:
            opening = group.create_task(opened(rig))
            await gate.reached()
            opening.cancel()
        assert rig.reads.client.reads.in_use == 0
        assert rig.lookups.find(NAME, KEY) is None
        gate.open()


async def test_a_pending_write_needs_a_task() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"before it")
        reader = await Reader(rig).connect()
        rig.pending.add(NAME)
        assert reader.begin() is None


async def test_bytes_with_a_crc_are_not_kept_unverified() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        rig.origin.faults.add(actions.change_headers(x_oss_hash_crc64ecma="1"), key=NAME.key)
        reader = await Reader(rig).connect()
        opening = reader.begin()
        assert opening is not None
        assert await reader.ended == (None, None)
        opening.abandon()
        assert rig.heads.current(NAME) is None


async def test_nothing_is_shown_while_others_forget_the_old_version() -> None:
    """This worker has done so already, and knows no version."""
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        rig.origin.store.put(*NAME, b"new")
        reader, _, gate = await begin_held(rig)
        await gate.reached()
        rig.openings.replacement, forgotten = slow_replacement(rig)
        old = head_of(ObjectFacts(Version('"old"'), 9, "", ()), BLOCK, rig.now)
        rig.heads.store(NAME, old, rig.heads.now()[0])
        removal = group.create_task(rig.openings.replacement.remove(NAME, old))
        await forgotten.reached()
        gate.open()
        assert await reader.ended == (None, None)
        found, _ = await share(rig)
        assert isinstance(found, ResolvedVersion)
        assert not removal.done()
        forgotten.open()


def slow_replacement(rig: FetchRig) -> tuple[HeadReplacement, Gate]:
    """One whose removals are done here at once, and in other workers when the gate opens."""
    gate = Gate()

    async def forget(name: ObjectName, _keep: Generation | None, since: Tick) -> Tick | None:
        rig.tiers.memory.forget(name)
        await gate.wait_open()
        return since

    return HeadReplacement(rig.heads, rig.lookups, forget, rig.tasks, rig.heard), gate


async def test_what_an_opening_shows_is_not_replaced_by_a_late_answer() -> None:
    """The origin carries out a later request first; its response comes last."""
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        rig.origin.store.put(*NAME, b"old")
        rig.origin.faults.add(actions.HoldRequest(held := Gate()), method="GET", key=NAME.key, times=1)
        reader = await Reader(rig).connect()
        assert reader.begin() is not None
        await held.reached()
        rig.now += 1
        rig.origin.faults.add(actions.HoldHead(late := Gate()), method="HEAD", times=1)
        second = group.create_task(rig.versions.fetch(READ._replace(span=None), None, strict=False))
        await late.reached()
        new = rig.origin.store.put(*NAME, b"new")
        held.open()
        assert await reader.ended == (new.etag.encode(), b"new")
        late.open()
        await second
        found = await rig.resolver.resolve(READ)
        assert isinstance(found, ResolvedVersion)
        assert found.head.version.etag == new.etag, "the old version"
        found.release_flights()


@pytest.mark.parametrize("needs_flight", [False, True])
async def test_a_body_that_nobody_takes_is_closed(needs_flight: bool) -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        reader = await Reader(rig).connect()
        found, _ = await share(rig)
        assert isinstance(found, ResolvedVersion)
        rig.tiers.memory.forget(NAME, found.head.generation)  # its blocks stay
        if needs_flight:
            again = await opened(rig)
            assert isinstance(again, ResolvedVersion)
            assert again.flights == {}
        else:
            assert reader.begin() is not None
            assert await reader.ended == (found.head.version.etag.encode(), None)
        assert rig.heads.current(NAME) == found.head
        assert rig.reads.client.reads.in_use == 0


async def test_the_request_of_a_reader_that_fails_to_go_on_is_closed() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, bytes(4 * BLOCK))
        await Reader(rig).connect()

        async def fail(_sent: object) -> Resolution:
            raise OriginBroken("it ends here")

        with pytest.raises(OriginBroken):
            await rig.openings.open(READ, fail)
        assert rig.reads.client.reads.in_use == 0


async def test_a_reader_that_left_holds_no_bytes() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        await Reader(rig).connect()
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        opening = rig.openings.begin(
            NAME, DECISION, Span(0, BLOCK), "reader", lambda _: ended.set_result(None), needs_flight=True
        )
        assert opening is not None
        await ended
        assert (len(rig.registry), rig.budget.in_use) == (1, len(b"all of it"))
        opening.close()
        assert (len(rig.registry), rig.budget.in_use) == (0, 0)


LARGE = bytes(range(251)) * 1200
"""An object of one block that does not come with its head."""
WIDE = LookupRequest(NAME, replace(DECISION, block=1 << 20), Span(0, 1 << 20))


async def begin_large(rig: FetchRig) -> tuple[Reader, DirectOpening]:
    """Background work begins to open it."""
    rig.origin.store.put(*NAME, LARGE)
    reader = await Reader(rig).connect()
    opening = rig.openings.begin(NAME, WIDE.decision, WIDE.span or Span(0, 1), BACKGROUND, reader.end)
    assert opening is not None
    return reader, opening


async def room_is_made(rig: FetchRig) -> None:
    """The head has come, and there is room for the body."""
    await run_loop_until(lambda: rig.budget.in_use)


async def prefetch(rig: FetchRig) -> Resolution | None:
    requester.set(BACKGROUND)
    return await rig.openings.open(WIDE, partial(rig.versions.open, WIDE, strict=False))


async def bytes_of(found: Resolution | None) -> bytes:
    """The bytes of the only flight that came with a head."""
    assert isinstance(found, ResolvedVersion)
    flight = found.flights[0]
    flight.follow()
    found.release_flights()
    await flight.wait_filled(flight.length)
    body = bytes(flight.buffer)
    flight.leave()
    return body


async def prefetched(rig: FetchRig) -> bytes:
    return await bytes_of(await prefetch(rig))


async def test_background_work_gets_a_large_object_whole() -> None:
    async with fetch_rig() as rig:
        reader, _ = await begin_large(rig)
        assert (await reader.ended)[1] == LARGE
        assert rig.budget.in_use == 0
        assert len(rig.tasks) == 0


async def test_a_large_object_that_is_followed_comes_whole() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, LARGE)
        await Reader(rig).connect()
        found = await prefetch(rig)
        assert isinstance(found, ResolvedVersion)
        assert found.flights[0].has_landed
        assert await bytes_of(found) == LARGE
        assert rig.origin.log.count(key=NAME.key) == 1


async def test_demand_gets_the_first_bytes_of_a_large_object_as_they_come() -> None:
    """Background work waits for its end, at which the origin stands still."""
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, LARGE)
        await Reader(rig).connect()
        rig.origin.faults.add(actions.HoldAfter(200_000, gate := Gate()), key=NAME.key, times=1)
        async with asyncio.TaskGroup() as group:
            ahead = group.create_task(prefetched(rig))
            await room_is_made(rig)
            found, joined = await rig.lookups.share(NAME, KEY, lambda sent: rig.versions.open(WIDE, sent, strict=False))
            assert isinstance(found, ResolvedVersion)
            flight = found.flights[0]
            flight.follow()
            await flight.wait_filled(100_000)
            assert not flight.has_landed
            assert flight.buffer[:100_000] == LARGE[:100_000]
            gate.open()
            await flight.wait_filled(len(LARGE))
            assert flight.buffer == LARGE
            flight.leave()
        assert joined
        assert ahead.result() == LARGE
        assert rig.origin.log.count(key=NAME.key) == 1


async def test_a_large_object_that_breaks_off_is_resumed() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, LARGE)
        await Reader(rig).connect()
        rig.origin.faults.add(actions.ResetAfter(200_000), key=NAME.key, times=1)
        assert await bytes_of(await prefetch(rig)) == LARGE
        assert rig.origin.log.count(key=NAME.key) == 2


async def test_a_large_object_that_is_not_wanted_any_more_holds_nothing() -> None:
    async with fetch_rig() as rig:
        rig.origin.faults.add(actions.HoldAfter(200_000, gate := Gate()), key=NAME.key, times=1)
        _, opening = await begin_large(rig)
        await room_is_made(rig)
        opening.close()
        assert rig.budget.in_use == rig.reads.client.reads.in_use == 0
        gate.open()


class FailingFlights(RecordedEvents):
    """An observer that fails at the next flight once it is told to."""

    fails = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, FlightStarted) and self.fails:
            self.fails = False
            raise ArithmeticError("an observer of the test's")
        super().__call__(event)


async def test_the_room_of_a_flight_that_failed_is_released_once() -> None:
    async with fetch_rig(heard=(heard := FailingFlights())) as rig:
        rig.origin.store.put(*NAME, LARGE)
        await Reader(rig).connect()
        heard.fails = True
        assert await bytes_of(await prefetch(rig)) == LARGE
        assert not heard.fails
        await rig.tasks.wait_idle()
        assert rig.budget.in_use == 0


async def test_without_buffers_a_large_object_has_no_room() -> None:
    async with fetch_rig(buffers=len(LARGE)) as rig:
        rig.origin.store.put(*NAME, LARGE)
        await Reader(rig).connect()
        assert rig.budget.try_acquire(1)
        found = await prefetch(rig)
        rig.budget.release(1)
        assert isinstance(found, ResolvedVersion)
        assert (found.head.size, found.flights) == (len(LARGE), {})
