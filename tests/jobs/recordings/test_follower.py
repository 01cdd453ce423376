"""The follower: fetches ahead of a reader, never further than its horizon, and gives everything back."""

import asyncio
from collections.abc import Iterable
from itertools import count

import pytest

from forebay.core.events import ReaderKey, RecordedRead
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.prefetcher import PIECE, AheadOutcome, AheadRequest
from forebay.jobs.recordings.follower import CONCURRENCY, HORIZON_READS, MAX_FOLLOWED, FollowedRecording, Follower
from forebay.jobs.recordings.recording import Recording
from harness.loader_orders import sample_keys
from harness.recording_content import recording_of

READER = ReaderKey("bucket", "set", "user")
KEYS = sample_keys(300)
FILE = recording_of(KEYS)
SETTLED = 200
"""Turns of the loop in which everything that can go on has done so."""


class ScriptedAhead:
    """Fetches nothing, at once. `room`: bytes that may wait for their reader."""

    def __init__(self, room: int = 1 << 40, size: int = 1000) -> None:
        self.room = room
        self.size = size
        self.requests: list[AheadRequest] = []
        self.tickets: dict[int, int] = {}
        self.finished = 0
        self.dropped = 0
        self._numbers = count(1)

    async def fetch(self, request: AheadRequest) -> AheadOutcome:
        await asyncio.sleep(0)
        stop = min(request.start + PIECE, self.size if request.stop is None else request.stop)
        claimed = stop - request.start
        if sum(self.tickets.values()) + claimed > self.room:
            return AheadOutcome("full")
        self.requests.append(request)
        ticket = next(self._numbers)
        self.tickets[ticket] = claimed
        return AheadOutcome("fetched", self.size, stop, claimed, ticket)

    def finish(self, tickets: Iterable[int]) -> None:
        for ticket in tickets:
            del self.tickets[ticket]
            self.finished += 1

    def drop(self, tickets: Iterable[int]) -> None:
        for ticket in tickets:
            del self.tickets[ticket]
            self.dropped += 1

    @property
    def keys(self) -> list[str]:
        return [request.name.key for request in self.requests]


async def settle() -> None:
    for _ in range(SETTLED):
        await asyncio.sleep(0)


class FollowRig:
    def __init__(self, ahead: ScriptedAhead, horizon: int = 1 << 40, content: bytes = FILE) -> None:
        self.ahead = ahead
        self.tasks = TaskRegistry()
        self.counts: list[str] = []
        self.recording = Recording("0" * 16, "bucket", "name", "user", "set", "automatic", 1.0, "run", 1)
        self.denied: set[str] = set()

        async def read(_: Recording) -> bytes:
            return content

        def may_read(principal: str, name: ObjectName) -> bool:
            return principal == "user" and name.key not in self.denied

        self.follower = Follower(
            read,
            lambda _reader, _recording: True,
            may_read,
            lambda _: None,
            ahead,
            lambda: horizon,
            self.tasks,
            self.counts.append,
        )


async def test_the_rest_of_a_recording_is_fetched_in_order() -> None:
    rig = FollowRig(ScriptedAhead())
    rig.follower.followed(READER, rig.recording, 120)
    await rig.tasks.wait_idle()
    assert rig.ahead.keys == KEYS[120:]
    rig.follower.advanced(READER, 200)
    assert (rig.ahead.finished, len(rig.ahead.tickets), rig.follower.running) == (80, 100, 1), "it waits for its reader"
    rig.follower.ended(READER, parted=False)
    assert rig.ahead.tickets == {}
    assert (rig.ahead.finished, rig.ahead.dropped, rig.follower.running) == (180, 0, 0)
    assert rig.counts == ["followed"]


async def test_nothing_is_fetched_beyond_the_horizon() -> None:
    rig = FollowRig(ScriptedAhead(), horizon=50_000)
    rig.follower.followed(READER, rig.recording, 0)
    await settle()
    assert rig.ahead.keys == KEYS[:50]
    rig.follower.advanced(READER, 30)
    await settle()
    assert rig.ahead.keys == KEYS[:80]
    assert len(rig.ahead.tickets) == 50
    rig.follower.ended(READER, parted=False)
    await rig.tasks.wait_idle()
    assert rig.ahead.keys == KEYS
    assert rig.ahead.tickets == {}


async def test_a_reader_that_parts_leaves_nothing_behind() -> None:
    rig = FollowRig(ScriptedAhead(), horizon=50_000)
    rig.follower.followed(READER, rig.recording, 0)
    await settle()
    rig.follower.advanced(READER, 10)
    rig.follower.ended(READER, parted=True)
    await rig.tasks.wait_idle()
    assert rig.ahead.tickets == {}
    assert (rig.ahead.finished, rig.follower.running) == (10, 0)
    assert rig.ahead.dropped == len(rig.ahead.requests) - 10
    assert rig.counts == ["followed", "parted"]


async def test_a_reader_that_parts_when_all_is_fetched_leaves_nothing() -> None:
    rig = FollowRig(ScriptedAhead())
    rig.follower.followed(READER, rig.recording, 0)
    await rig.tasks.wait_idle()
    rig.follower.ended(READER, parted=True)
    assert (rig.ahead.tickets, rig.ahead.dropped, rig.follower.running) == ({}, 300, 0)


async def test_a_budget_that_is_full_is_waited_for() -> None:
    rig = FollowRig(ScriptedAhead(room=20_000))
    rig.follower.followed(READER, rig.recording, 0)
    await settle()
    assert len(rig.ahead.requests) == 20
    rig.follower.advanced(READER, 15)
    await settle()
    assert set(KEYS[15:35]) >= set(rig.ahead.keys[20:])
    assert len(rig.ahead.tickets) == 20
    rig.follower.ended(READER, parted=False)
    await rig.tasks.wait_idle()
    assert rig.ahead.tickets == {}


async def test_what_the_reader_has_passed_is_not_fetched() -> None:
    rig = FollowRig(ScriptedAhead(), horizon=10_000)
    rig.follower.followed(READER, rig.recording, 0)
    await settle()
    rig.follower.advanced(READER, 250)
    rig.follower.ended(READER, parted=False)
    await rig.tasks.wait_idle()
    assert rig.ahead.keys == KEYS[:10] + KEYS[250:]


async def test_keys_that_the_reader_may_not_read_are_left_out() -> None:
    rig = FollowRig(ScriptedAhead())
    rig.denied = set(KEYS[::2])
    rig.follower.followed(READER, rig.recording, 0)
    await rig.tasks.wait_idle()
    assert rig.ahead.keys == KEYS[1::2]


async def test_ranges_are_fetched_as_they_were_read_in_pieces() -> None:
    reads = [RecordedRead("table", start, PIECE + 5, False) for start in range(0, 1 << 30, 1 << 26)]
    rig = FollowRig(ScriptedAhead(size=1 << 31), content=recording_of([*reads, RecordedRead("small", 0, 1, True)]))
    rig.follower.followed(READER, rig.recording, 0)
    await rig.tasks.wait_idle()
    spans = sorted((each.start, each.stop) for each in rig.ahead.requests if each.name.key == "table")
    assert spans[:2] == [(0, PIECE + 5), (PIECE, PIECE + 5)]
    assert len(spans) == 2 * len(reads)
    assert {each.stop for each in rig.ahead.requests if each.name.key == "small"} == {None}


async def test_so_many_recordings_are_followed_at_once() -> None:
    rig = FollowRig(ScriptedAhead(), horizon=1)
    for number in range(MAX_FOLLOWED + 2):
        rig.follower.followed(ReaderKey("bucket", "set", f"user-{number}"), rig.recording, 0)
    await settle()
    assert rig.follower.running == MAX_FOLLOWED
    rig.follower.close()
    await rig.tasks.close()
    assert (rig.ahead.tickets, rig.follower.running) == ({}, 0)


async def test_one_reader_follows_one_recording() -> None:
    rig = FollowRig(ScriptedAhead(), horizon=1)
    rig.follower.followed(READER, rig.recording, 0)
    await settle()
    rig.follower.followed(READER, rig.recording, 100)
    await settle()
    assert rig.follower.running == 1
    await rig.tasks.close()
    assert rig.ahead.tickets == {}


@pytest.mark.parametrize("position", [0, HORIZON_READS, 20_000])
async def test_a_long_recording_is_begun_where_its_reader_is(position: int) -> None:
    keys = sample_keys(30_000)
    ahead = ScriptedAhead()
    followed = FollowedRecording(READER, None, position, 1 << 40, ahead)
    task = asyncio.create_task(followed.run(recording_of(keys, 2000), lambda _: True))  # noqa: TID251 # the test's own
    for _ in range(2 * HORIZON_READS):
        await asyncio.sleep(0)
    assert ahead.keys == keys[position : position + HORIZON_READS]
    task.cancel()
    await asyncio.wait([task])
    followed.release(is_read=False)
    assert (ahead.tickets, ahead.dropped) == ({}, HORIZON_READS)
    assert CONCURRENCY < HORIZON_READS
