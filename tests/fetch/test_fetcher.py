"""The fetcher: one ranged GET feeds its flights, is resumed, and ends without followers."""

import asyncio
from contextlib import closing
from dataclasses import replace
from typing import Literal

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, OriginError, OriginRefused, OriginUnfit, VersionChanged
from forebay.core.events import FlightStarted, OriginBytesRead
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.fetcher import Fetcher
from forebay.fetch.flight import Flight
from forebay.fetch.run_reader import ChecksumMismatch
from forebay.fetch.run_source import ThroughputFloor
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import ResolvedVersion
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import BodySource, ObjectOpened, ReadBody
from forebay.peers.owners import Peers
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig


class AllAtOnce:
    """A body that arrived together with its head."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def take_whole(self, length: int) -> memoryview | None:
        return memoryview(bytearray(self.content)) if length == len(self.content) else None

    async def read_into(self, target: memoryview) -> int:
        raise AssertionError("nobody has to wait for it")

    def skip_turns(self) -> None: ...

    def close(self) -> None: ...


async def never(error: OriginError) -> BodySource:
    raise error


def follow(flights: dict[int, Flight]) -> dict[int, Flight]:
    for flight in flights.values():
        flight.follow()
    return flights


async def landed(flights: dict[int, Flight]) -> dict[int, bytes]:
    """Returns the bytes of flights that are followed, and leaves them."""
    for flight in flights.values():
        await flight.wait_filled(flight.length)
    found = {number: bytes(flight.buffer) for number, flight in flights.items()}
    for flight in flights.values():
        flight.leave()
    return found


async def failed(rig: FetchRig, flights: dict[int, Flight]) -> Exception:
    await rig.tasks.wait_idle()
    flight = flights[max(flights)]
    try:
        await flight.wait_filled(flight.length)
    except Exception as error:
        return error
    finally:
        for each in flights.values():
            each.leave()
    raise AssertionError("it has landed")


async def test_one_get_feeds_all_its_flights() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 3 * BLOCK + 5)
        head = await rig.head()
        found = await landed(follow(rig.fetcher.start(rig.fetch(head, 0, 1, 2, 3))))
        assert b"".join(found.values()) == content.expected(Span(0, 3 * BLOCK + 5))
        assert rig.origin.log.ranges() == [f"bytes=0-{3 * BLOCK + 4}"]
        assert rig.origin.log.matching("GET")[0].headers["If-Match"] == content.etag
        assert [event.blocks for event in rig.heard.of(FlightStarted)] == [4]
        assert sum(event.size for event in rig.heard.of(OriginBytesRead)) == 3 * BLOCK + 5
        assert all(rig.tiers.has(rig.block(head, number)) for number in range(4))


@pytest.mark.parametrize("source", ["origin", "worker"])
async def test_an_object_that_came_whole_with_its_head_lands_at_once(source: Literal["origin", "worker"]) -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, BLOCK - 5)
        head = await rig.head()
        whole = content.expected(Span(0, BLOCK - 5))
        opened = ObjectOpened(head.facts, Span(0, head.size), ReadBody(AllAtOnce(whole), head.size, never), source)
        view = rig.fetch(head, 0).view
        rig.budget.release(BLOCK - 5)  # adoption acquires it
        await rig.tasks.wait_idle()
        flights = follow(rig.fetcher.adopt_first_blocks(view, opened))
        assert flights[0].has_landed
        assert flights[0].source == ("flight" if source == "origin" else "worker")
        assert len(rig.tasks) == 0
        assert rig.budget.in_use == BLOCK - 5
        assert rig.tiers.has(rig.block(head, 0))
        assert sum(event.size for event in rig.heard.of(OriginBytesRead)) == (BLOCK - 5 if source == "origin" else 0)
        assert (await landed(flights))[0] == whole
        assert rig.budget.in_use == len(rig.fetcher.registry) == 0


async def test_a_part_that_came_with_its_head_is_completed() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, BLOCK - 5)
        head = await rig.head()
        opened = await rig.reads.open_read(NAME, OriginRead(span=Span(0, 5)))
        assert isinstance(opened, ObjectOpened)
        found = await landed(follow(rig.fetcher.adopt_first_blocks(ObjectView(NAME, head, "rule"), opened)))
        assert found == {0: content.expected(Span(0, BLOCK - 5))}


async def test_what_was_asked_for_when_blocks_were_smaller_is_completed() -> None:
    """The rules were reloaded meanwhile, or are being reloaded, and another worker has the old ones."""
    async with fetch_rig() as rig, asyncio.timeout(20):
        content = rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        larger = replace(DECISION, block=2 * BLOCK)
        found = await rig.resolver.resolve(LookupRequest(NAME, larger, Span(0, BLOCK)))
        assert isinstance(found, ResolvedVersion)
        assert await landed(follow(dict(found.flights))) == {0: content.expected(Span(0, 2 * BLOCK))}
        assert rig.origin.log.ranges() == [f"bytes=0-{BLOCK - 1}", f"bytes={BLOCK}-{2 * BLOCK - 1}"]


@pytest.mark.parametrize("leads", [False, True], ids=["fetch", "direct opening"])
async def test_an_object_with_a_crc_does_not_land_unverified(leads: bool) -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"content")
        rig.origin.faults.add(actions.change_headers(x_oss_hash_crc64ecma="7"), method="GET")
        await rig.head()  # a connection is idle now, which a direct opening needs
        found = await rig.resolver.resolve(LookupRequest(NAME, DECISION, Span(0, BLOCK)), leads=leads)
        assert isinstance(found, ResolvedVersion)
        if flights := follow(dict(found.flights)):
            assert isinstance(await failed(rig, flights), ChecksumMismatch)
        found.release_flights()
        assert not rig.tiers.has(rig.block(found.head, 0))
        assert rig.heads.current(NAME) is None
        with closing(rig.body(found.head, Span(0, 7))) as body, pytest.raises(ChecksumMismatch):
            await anext(body.pieces())


async def test_an_object_of_a_crc_may_come_in_pieces() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"123456789")
        rig.origin.faults.add(actions.change_headers(x_oss_hash_crc64ecma="11051210869376104954"))
        head = await rig.head()
        rig.origin.faults.add(actions.HoldAfter(4, gate := Gate()), method="GET")
        flights = follow(rig.fetcher.start(rig.fetch(head, 0)))
        await flights[0].wait_filled(4)
        gate.open()
        assert await landed(flights) == {0: b"123456789"}


@pytest.mark.parametrize("case", ["several blocks", "in flight", "in memory"])
async def test_only_one_block_that_is_not_here_lands_whole(case: str) -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, BLOCK + (case == "several blocks"))
        head = await rig.head()
        view, flights = ObjectView(NAME, head, "rule"), dict[int, Flight]()
        if case == "in flight":
            rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="GET")
            flights = follow(rig.fetcher.start(rig.fetch(head, 0)))
        elif case == "in memory":
            rig.tiers.admit(rig.block(head, 0), memoryview(content.expected(Span(0, BLOCK))))
        whole = memoryview(bytearray(head.size))
        assert rig.fetcher.land_whole(view, lambda: whole) is None
        assert rig.fetcher.keep_whole(view, lambda: whole) is None
        if case == "in flight":
            gate.open()
            assert await landed(flights) == {0: content.expected(Span(0, BLOCK))}
        kept = rig.tiers.memory.get(rig.block(head, 0))
        assert (kept and bytes(kept)) == (None if case == "several blocks" else content.expected(Span(0, BLOCK)))


async def test_a_fetch_fails_its_flights_beside_blocks_that_were_here() -> None:
    async with fetch_rig() as rig, asyncio.timeout(20):
        rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        head = await rig.head()
        rig.origin.faults.add(actions.FORBIDDEN, method="GET")
        assert isinstance(await failed(rig, follow(rig.fetcher.start(rig.fetch(head, 0, 2)))), OriginRefused)


async def test_a_landing_that_fails_leaves_no_flight() -> None:
    """Nobody would end it: all later readers would follow it."""

    def fail(event: object) -> None:
        raise ArithmeticError("an observer of the test's")

    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, BLOCK)
        head = await rig.head()
        whole = memoryview(content.expected(Span(0, BLOCK)))
        view = ObjectView(NAME, head, "rule")
        floor = ThroughputFloor(0, rig.timers)
        fetcher = Fetcher(rig.reads, rig.tiers, rig.registry, rig.budget, rig.tasks, fail, Peers(), floor)
        with pytest.raises(ArithmeticError):
            fetcher.land_whole(view, lambda: whole)
        assert rig.budget.in_use == len(rig.registry) == 0


async def test_blocks_not_missing_are_read_through_and_dropped() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        found = await landed(follow(rig.fetcher.start(rig.fetch(await rig.head(), 0, 2))))
        assert found == {0: content.expected(Span(0, BLOCK)), 2: content.expected(Span(2 * BLOCK, 3 * BLOCK))}


async def test_a_flying_block_is_joined_and_a_stored_one_is_not_fetched() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        head = await rig.head()
        rig.origin.faults.add(actions.HoldRequest(gate := Gate()), method="GET")
        first = follow(rig.fetcher.start(rig.fetch(head, 0)))
        rig.tiers.admit(rig.block(head, 1), memoryview(bytes(BLOCK)))
        second = follow(rig.fetcher.start(rig.fetch(head, 0, 1)))
        assert second == first
        assert rig.budget.in_use == BLOCK
        gate.open()
        await landed(first)
        await landed(second)
        assert rig.origin.log.count("GET") == 1


async def test_a_block_that_a_tier_failed_to_read_is_fetched() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK)
        head = await rig.head()
        rig.tiers.admit(rig.block(head, 0), memoryview(bytes(BLOCK)))
        assert rig.fetcher.start(rig.fetch(head, 0)) == {}
        await landed(follow(rig.fetcher.start(rig.fetch(head, 0, certain=True))))
        assert rig.origin.log.count("GET") == 1


async def test_a_landed_flight_is_shared_while_it_has_a_follower() -> None:
    async with fetch_rig(memory=0) as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK)
        head = await rig.head()
        flights = follow(rig.fetcher.start(rig.fetch(head, 0)))
        await rig.tasks.wait_idle()
        assert rig.registry.find(rig.block(head, 0)) is flights[0]
        assert rig.budget.in_use == BLOCK
        await landed(flights)
        assert rig.registry.find(rig.block(head, 0)) is None
        assert rig.budget.in_use == 0


async def test_a_broken_fetch_is_resumed_where_it_broke() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        head = await rig.head()
        rig.origin.faults.add(actions.CloseAfter(BLOCK + 10), method="GET", times=2)
        found = await landed(follow(rig.fetcher.start(rig.fetch(head, 0, 1, 2))))
        assert b"".join(found.values()) == content.expected(Span(0, 3 * BLOCK))
        starts = [0, BLOCK + 10, 2 * BLOCK + 20]
        assert rig.origin.log.ranges() == [f"bytes={start}-{3 * BLOCK - 1}" for start in starts]


async def test_resumptions_are_bounded() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        head = await rig.head()
        rig.origin.faults.add(actions.CloseAfter(10), method="GET")
        error = await failed(rig, follow(rig.fetcher.start(rig.fetch(head, 0, 1))))
        assert isinstance(error, OriginBroken)
        assert rig.origin.log.count("GET") == 3
        assert not rig.tiers.has(rig.block(head, 0))


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (actions.WRONG_ETAG, VersionChanged),
        (actions.NO_SUCH_KEY, VersionChanged),
        (actions.WrongTotal(99 * BLOCK), VersionChanged),
        (actions.FORBIDDEN, OriginRefused),
        (actions.IgnoreRange(), OriginUnfit),
        (actions.ChunkedBody(), OriginUnfit),
        (actions.NOT_MODIFIED, OriginBroken),
    ],
    ids=str,
)
async def test_a_response_that_does_not_match_fails_all_flights(fault: actions.Action, error: type[Exception]) -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        head = await rig.head()
        rig.origin.faults.add(fault, method="GET")
        flights = follow(rig.fetcher.start(rig.fetch(head, 0, 1)))
        assert type(await failed(rig, flights)) is error
        assert not any(rig.tiers.has(rig.block(head, number)) for number in (0, 1))


async def test_a_fetch_without_followers_ends_before_its_first_block() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        head = await rig.head()
        rig.fetcher.start(rig.fetch(head, 0, 1, 2))
        await rig.tasks.wait_idle()
        assert not any(rig.tiers.has(rig.block(head, number)) for number in range(3))


async def test_only_a_block_already_begun_is_finished_for_nobody() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 32 * BLOCK)
        head = await rig.head()
        rig.origin.faults.add(actions.HoldAfter(BLOCK + 10, gate := Gate()), method="GET")
        flights = follow(rig.fetcher.start(rig.fetch(head, *range(32))))
        await flights[1].wait_filled(10)
        for flight in flights.values():
            flight.leave()
        gate.open()
        await rig.tasks.wait_idle()
        assert [rig.tiers.has(rig.block(head, number)) for number in range(32)] == [True] * 2 + [False] * 30


async def test_a_late_follower_keeps_an_abandoned_fetch_going() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 4 * BLOCK)
        head = await rig.head()
        gates = [Gate(), Gate()]
        rig.origin.faults.add(
            actions.HoldAfter(10, gates[0]), actions.HoldAfter(BLOCK - 10, gates[1]), method="GET", times=1
        )
        flights = follow(rig.fetcher.start(rig.fetch(head, 0, 1, 2, 3)))
        await flights[0].wait_filled(10)
        for flight in flights.values():
            flight.leave()
        gates[0].open()
        await flights[0].wait_filled(BLOCK - 10)
        late = rig.registry.find(rig.block(head, 3))
        assert late is not None
        found = follow({3: late})
        gates[1].open()
        assert await landed(found) == {3: content.expected(Span(3 * BLOCK, 4 * BLOCK))}
        assert rig.origin.log.count("GET") == 1


async def test_a_response_under_way_is_adopted() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        head = await rig.head()
        opened = await rig.reads.open_read(NAME, OriginRead(span=Span(0, 3 * BLOCK)))
        assert isinstance(opened, ObjectOpened)
        fetch = rig.fetch(head, 0, 1)
        rig.budget.release(fetch.buffer_bytes)  # adopt acquires it
        found = await landed(follow(rig.fetcher.adopt(fetch, opened)))
        assert b"".join(found.values()) == content.expected(Span(0, 2 * BLOCK))
        assert rig.origin.log.count("GET") == 1


async def test_a_response_is_closed_without_memory_or_missing_blocks() -> None:
    """The rig's client checks that the connection is released."""
    async with fetch_rig(buffers=BLOCK) as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK)
        head = await rig.head()
        fetch = rig.fetch(head, 0)
        opened = await rig.reads.open_read(NAME, OriginRead(span=Span(0, BLOCK)))
        assert isinstance(opened, ObjectOpened)
        assert rig.fetcher.adopt(fetch, opened) == {}
        rig.budget.release(fetch.buffer_bytes)
        rig.tiers.admit(rig.block(head, 0), memoryview(bytes(BLOCK)))
        opened = await rig.reads.open_read(NAME, OriginRead(span=Span(0, BLOCK)))
        assert isinstance(opened, ObjectOpened)
        assert rig.fetcher.adopt(fetch, opened) == {}
        assert len(rig.tasks) == 0
