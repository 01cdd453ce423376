"""The follower: makes a plan of the rest of a recording that a reader follows.

    track ──followed, advanced──> a miss ──> the file is read ──> plan coordinator ──> plan runner (jobs.plans)
          ──parted──> the plan is cancelled
          ──at its end──> the plan ends by itself, with its last entries

While all of the reader's objects are cached there is no plan, as a plan costs as much as some hits. One that finds
everything cached ends, and begins again with the next miss.

The plan has everything else: its reader's position, the horizon, and the reader's grants and credential. The principal
whose reads were recorded has no part in that.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from forebay.core.events import ReaderKey
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.plans.plan_entries import OrderedEntries
from forebay.jobs.plans.plan_files import plan_id
from forebay.jobs.plans.plan_runner import PlanRunner
from forebay.jobs.plans.plan_store import PlanRecord
from forebay.jobs.plans.plan_window import PlanStart
from forebay.jobs.recordings.recording import Recording
from forebay.jobs.recordings.recording_entries import RecordingEntries

MAX_FOLLOWED: Final = 8
"""Recordings that are followed at once; each has its file in memory."""

_log = logging.getLogger(__name__)


class FollowedPlans(Protocol):
    """The part of forebay.jobs.plans.plan_coordinator that the follower uses."""

    def follow(self, record: PlanRecord, entries: OrderedEntries, start: PlanStart) -> PlanRunner | None:
        """Runs the rest of a recording; None: there are too many plans."""
        ...

    def stop(self, plan: str) -> bool:
        """Ends a plan."""
        ...


class _Followed:
    """A recording that one reader goes along."""

    __slots__ = ("is_beginning", "plan", "recording", "runner", "start")

    def __init__(self, plan: str, recording: Recording, start: Callable[[], PlanStart]) -> None:
        self.plan = plan
        self.recording = recording
        self.start = start
        """Returns where its reader is."""
        self.runner: PlanRunner | None = None
        self.is_beginning = False

    @property
    def wants_plan(self) -> bool:
        """Whether no plan runs or begins."""
        return not self.is_beginning and (self.runner is None or self.runner.is_closed.is_set())


class Follower:
    """Follows recordings for all readers of the node. Implements reader_track.FollowListener."""

    def __init__(
        self,
        read: Callable[[Recording], Awaitable[bytes]],
        may_follow: Callable[[ReaderKey, Recording], bool],
        plans: FollowedPlans,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        count: Callable[[str], None],
    ) -> None:
        """`read` returns the file of a recording. `count("followed" or "parted")` is called for each. `clock`: seconds
        since 1970."""
        self._read = read
        self._may_follow = may_follow
        self._plans = plans
        self._tasks = tasks
        self._clock = clock
        self._count = count
        self._current: dict[ReaderKey, _Followed] = {}
        """The followed recording of each reader."""
        self._runners: list[PlanRunner] = []

    @property
    def running(self) -> int:
        """The number of recordings that are followed, or have not been read to their end yet."""
        self._runners = [runner for runner in self._runners if not runner.is_closed.is_set()]
        return len(self._runners)

    def may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        """Returns whether the policy in force lets the reader follow the recording."""
        return self._may_follow(reader, recording)

    def followed(
        self, reader: ReaderKey, recording: Recording, start: Callable[[], PlanStart], *, missed: bool
    ) -> None:
        """Begins to fetch ahead of the reader, once it misses anything."""
        self._stop(reader)
        self._count("followed")
        plan = plan_id(reader.bucket, reader.principal, _plan_name(recording))
        self._current[reader] = _Followed(plan, recording, start)
        self.position_advanced(reader, missed=missed)

    def position_advanced(self, reader: ReaderKey, *, missed: bool) -> None:
        """Has a plan begin if the reader has missed something and there is none. A plan that runs sees the reads
        itself."""
        current = self._current.get(reader)
        if current is None:
            return
        if missed and current.wants_plan and self.running < MAX_FOLLOWED:
            current.is_beginning = True
            self._tasks.spawn(self._begin(reader, current), f"follow {reader.bucket}/{current.recording.name}")

    async def _begin(self, reader: ReaderKey, current: _Followed) -> None:
        recording = current.recording
        try:
            content = await self._read(recording)
        except FileNotFoundError:  # it was dropped meanwhile
            return
        except OSError as error:
            _log.warning("the recording %s can't be followed: %s", recording.name, error.strerror)
            return
        if self._current.get(reader) is not current:  # it has parted, or was at its end, meanwhile
            return
        entries = RecordingEntries(content, recording.reads)
        record = PlanRecord(
            current.plan,
            reader.bucket,
            reader.principal,
            _plan_name(recording),
            self._clock(),
            entries.count,
            0,
            recording=recording.name,
        )
        current.runner = self._plans.follow(record, entries, current.start())
        if current.runner is not None:
            self._runners.append(current.runner)
            current.is_beginning = False

    def ended(self, reader: ReaderKey, *, parted: bool) -> None:
        """Leaves the plan to its end, or ends it."""
        if parted:
            self._count("parted")
            self._stop(reader)
        elif (current := self._current.pop(reader, None)) is not None and current.runner is not None:
            current.runner.is_near_end = True

    def close(self) -> None:
        """Follows nothing any more."""
        for reader in tuple(self._current):
            self._stop(reader)
        for runner in self._runners:
            self._plans.stop(runner.record.id)

    def _stop(self, reader: ReaderKey) -> None:
        if (current := self._current.pop(reader, None)) is not None:
            self._plans.stop(current.plan)


def _plan_name(recording: Recording) -> str:
    return f"recording:{recording.name}"
