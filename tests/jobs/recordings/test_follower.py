"""The follower: the rest of a recording becomes a plan, from where its reader is, and ends when the reader parts."""

import asyncio
import errno

import pytest

from forebay.core.events import ReaderKey
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.plans.plan_allowance import Allowance
from forebay.jobs.plans.plan_entries import OrderedEntries
from forebay.jobs.plans.plan_runner import PlanRunner
from forebay.jobs.plans.plan_store import PlanRecord
from forebay.jobs.plans.plan_window import PlanStart
from forebay.jobs.prefetch.prefetch_request import OnOutcome, PrefetchOutcome, PrefetchRequest
from forebay.jobs.recordings.follower import MAX_FOLLOWED, Follower
from forebay.jobs.recordings.recording import Recording
from harness.loader_orders import sample_keys
from harness.manual_timers import ManualTimers
from harness.recording_content import recording_of

READER = ReaderKey("bucket", "set", "user")
KEYS = sample_keys(300)
FILE = recording_of(KEYS)


class NothingAhead:
    """Fetches nothing."""

    def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
        return None

    def begin(self, request: PrefetchRequest, on_end: OnOutcome) -> bool:
        return False

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        return PrefetchOutcome("fetched", 1000, 1000)

    def finish(self, tickets: object, *, late: bool = False) -> None:
        pass

    def drop(self, tickets: object) -> None:
        pass


class NotedPlans:
    """Makes the runners of plans, and does not run them. `limit`: how many there may be."""

    def __init__(self, limit: int = 64) -> None:
        self.limit = limit
        self.runners: dict[str, PlanRunner] = {}
        self.begun: list[tuple[str, str, int, int]] = []
        self.stopped: list[str] = []

    def follow(self, record: PlanRecord, entries: OrderedEntries, start: PlanStart) -> PlanRunner | None:
        if len(self.runners) >= self.limit:
            return None
        rest = entries.read(start.position, 1000)
        self.begun.append((record.name, record.principal, start.position, len(rest)))
        allowance = Allowance(lambda _: True, None, lambda _: 1 << 20, lambda _: "set")
        runner = self.runners[record.id] = PlanRunner(
            record, entries, start, NothingAhead(), lambda: allowance, ManualTimers(), lambda work, _: work, float
        )
        return runner

    def stop(self, plan: str) -> bool:
        if plan not in self.runners:
            return False
        self.runners.pop(plan).close("cancelled")
        self.stopped.append(plan)
        return True


class FollowRig:
    def __init__(self, limit: int = 64) -> None:
        self.plans = NotedPlans(limit)
        self.tasks = TaskRegistry()
        self.counts: list[str] = []
        self.file_read = asyncio.Event()
        self.file_read.set()
        self.failure: OSError | None = None
        self.position = 0
        """Of each reader."""
        self.follower = Follower(self._read, self._may_follow, self.plans, self.tasks, lambda: 1.0, self.counts.append)

    def _may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        return reader == READER and recording.name != "secret"

    async def _read(self, _: Recording) -> bytes:
        await self.file_read.wait()
        if self.failure is not None:
            raise self.failure
        return FILE

    def start(self) -> PlanStart:
        return PlanStart(self.position)

    async def follow(self, name: str = "name", position: int = 0, reader: ReaderKey = READER) -> None:
        self.position = position
        self.follower.followed(reader, recording(name), self.start, missed=True)
        await self.tasks.wait_idle()


def recording(name: str = "name") -> Recording:
    return Recording("0" * 16, "bucket", name, "user", "set", "automatic", 1.0, "run", 1, reads=len(KEYS))


async def test_the_rest_of_a_recording_becomes_a_plan() -> None:
    rig = FollowRig()
    await rig.follow(position=120)
    assert rig.plans.begun == [("recording:name", "user", 120, 180)]
    assert (rig.follower.running, rig.counts) == (1, ["followed"])


async def test_a_plan_begins_where_the_reader_is_by_then() -> None:
    rig = FollowRig()
    rig.file_read.clear()
    rig.follower.followed(READER, recording(), rig.start, missed=True)
    rig.position = 40
    rig.follower.position_advanced(READER, missed=True)
    rig.file_read.set()
    await rig.tasks.wait_idle()
    assert rig.plans.begun == [("recording:name", "user", 40, 260)]


async def test_a_reader_of_cached_objects_has_no_plan_until_it_misses() -> None:
    rig = FollowRig()
    rig.follower.followed(READER, recording(), rig.start, missed=False)
    rig.follower.position_advanced(READER, missed=False)
    await rig.tasks.wait_idle()
    assert (rig.plans.begun, rig.follower.running) == ([], 0)
    for rig.position in (60, 80):
        rig.follower.position_advanced(READER, missed=True)
        await rig.tasks.wait_idle()
        assert rig.plans.begun == [("recording:name", "user", 60, 240)]


async def test_a_plan_that_ended_begins_again_with_the_next_miss() -> None:
    rig = FollowRig()
    await rig.follow()
    [runner] = rig.plans.runners.values()
    runner.close("done")
    rig.follower.position_advanced(READER, missed=False)
    rig.position = 100
    rig.follower.position_advanced(READER, missed=True)
    await rig.tasks.wait_idle()
    assert [position for _, _, position, _ in rig.plans.begun] == [0, 100]


async def test_a_reader_that_parts_ends_its_plan() -> None:
    rig = FollowRig()
    await rig.follow()
    rig.follower.ended(READER, parted=True)
    assert (len(rig.plans.stopped), rig.follower.running, rig.counts) == (1, 0, ["followed", "parted"])
    rig.follower.position_advanced(READER, missed=True)
    await rig.tasks.wait_idle()
    assert len(rig.plans.begun) == 1


async def test_a_reader_at_its_end_leaves_the_plan_to_its_own() -> None:
    rig = FollowRig()
    await rig.follow()
    rig.follower.ended(READER, parted=False)
    await rig.follow("next")
    assert [name for name, *_ in rig.plans.begun] == ["recording:name", "recording:next"]
    assert (rig.plans.stopped, rig.follower.running) == ([], 2)
    assert [runner.is_near_end for runner in rig.plans.runners.values()] == [True, False]
    for runner in rig.plans.runners.values():
        runner.close("done")
    assert rig.follower.running == 0


async def test_a_reader_that_parts_while_the_file_is_read_has_no_plan() -> None:
    rig = FollowRig()
    for parted in (True, False):
        rig.file_read.clear()
        rig.follower.followed(READER, recording(), rig.start, missed=True)
        rig.follower.ended(READER, parted=parted)
        rig.file_read.set()
        await rig.tasks.wait_idle()
    assert (rig.plans.begun, rig.follower.running) == ([], 0)


@pytest.mark.parametrize("failure", [FileNotFoundError(), OSError(errno.EIO, "I/O error")], ids=["gone", "EIO"])
async def test_a_recording_that_can_not_be_read_is_no_plan(failure: OSError, caplog: pytest.LogCaptureFixture) -> None:
    rig = FollowRig()
    rig.failure = failure
    await rig.follow()
    assert rig.plans.begun == []
    said = ["the recording name can't be followed: I/O error"] if failure.errno else []
    assert caplog.messages == said


async def test_so_many_recordings_are_followed_at_once() -> None:
    rig = FollowRig()
    for number in range(MAX_FOLLOWED + 2):
        await rig.follow(reader=ReaderKey("bucket", "set", f"user-{number}"))
    assert rig.follower.running == len(rig.plans.begun) == MAX_FOLLOWED
    rig.follower.close()
    assert (rig.plans.runners, rig.follower.running) == ({}, 0)


async def test_a_closed_follower_follows_nothing() -> None:
    """Neither a reader, nor a plan whose reader was at its end; nor is a plan begun whose file is being read."""
    rig = FollowRig()
    await rig.follow("ended")
    rig.follower.ended(READER, parted=False)
    await rig.follow("current")
    rig.file_read.clear()
    rig.follower.followed(ReaderKey("bucket", "set", "other"), recording("beginning"), rig.start, missed=True)
    rig.follower.close()
    rig.file_read.set()
    await rig.tasks.wait_idle()
    assert [name for name, *_ in rig.plans.begun] == ["recording:ended", "recording:current"]
    assert (rig.plans.runners, rig.follower.running) == ({}, 0)


def test_the_policy_says_who_may_follow_a_recording() -> None:
    rig = FollowRig()
    assert [rig.follower.may_follow(READER, recording(name)) for name in ("name", "secret")] == [True, False]


async def test_too_many_plans_are_no_error() -> None:
    rig = FollowRig(limit=0)
    await rig.follow()
    rig.follower.ended(READER, parted=True)
    assert (rig.plans.begun, rig.follower.running) == ([], 0)


async def test_one_reader_follows_one_recording() -> None:
    rig = FollowRig()
    for name in ("first", "second"):
        await rig.follow(name)
    assert (rig.follower.running, len(rig.plans.stopped)) == (1, 1)
