"""The plan coordinator: runs the plans of a node, in its worker 0, which collects the reads of all workers.

    store ──> queued ──series before it has fetched all──> running ──> ended, and removed from the store

Plans whose names agree up to their last slash are a series (`train/epoch-1`, `train/epoch-2`): they run one after
another in the order in which they were sent, each as soon as the one before has fetched its last entry. Others run side
by side and share `memory.ahead` equally. Where all slots are taken, an access key with few plans gets a slot of one
with many (jobs.plans.plan_slots).

The rest of a recording that a reader goes along is a plan, too (jobs.recordings.follower): it is in no store.

A read belongs to the plans of its principal in its bucket, whichever rank it comes from: the ranks of a node share the
fetched blocks, and a block of two plans is fetched once. Within a series a read belongs to the first plan that has it:
the end of an epoch is read while the next one, with the same keys, is fetched already. Reads from before a plan came do
not count for it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

from forebay.core.errors import Throttled
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.plan_progress import PlanProgress, PlanState
from forebay.core.read_stream import ReadBatch
from forebay.core.task_registry import TaskRegistry
from forebay.core.timers import Timers
from forebay.jobs.plans.plan_allowance import Allowance
from forebay.jobs.plans.plan_counts import UNCOUNTED, PlanMetrics
from forebay.jobs.plans.plan_entries import OrderedEntries
from forebay.jobs.plans.plan_positions import RECORD_TICKS, PlanPositions
from forebay.jobs.plans.plan_report import progress_of
from forebay.jobs.plans.plan_runner import PlanRunner
from forebay.jobs.plans.plan_slots import PlanSlot, plan_to_displace
from forebay.jobs.plans.plan_store import PlanRecord, PlanStore
from forebay.jobs.plans.plan_window import PlanStart
from forebay.jobs.prefetch.node_prefetcher import NodePrefetcher
from forebay.peers.node_reads import NodeReads
from forebay.policy.access import ReadPermits
from forebay.request.admission import GatewayPolicy

MAX_PLANS: Final = 64
"""Plans that run or are queued, of all access keys."""
MAX_ENDED: Final = 100
"""Plans that have ended and are still shown."""
TICK_SECONDS: Final = 0.5

PlanSeries: TypeAlias = tuple[str, str, str]
"""Bucket, principal, and the common prefix of the names."""

_log = logging.getLogger(__name__)


class PlanCoordinator:
    """The plans of one node."""

    def __init__(
        self,
        store: PlanStore,
        ahead: NodePrefetcher,
        node_reads: NodeReads,
        policy: Callable[[], GatewayPolicy],
        capacity: Callable[[], int],
        timers: Timers,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        metrics: PlanMetrics = UNCOUNTED,
        count_displaced: Callable[[], None] = lambda: None,
    ) -> None:
        """`capacity`: bytes that all workers together may have fetched ahead. `count_displaced` is called for each plan
        that gives its slot to another key's."""
        self._store = store
        self._ahead = ahead
        self._node_reads = node_reads
        self._policy = policy
        self._capacity = capacity
        self._timers = timers
        self._tasks = tasks
        self._clock = clock
        self._metrics = metrics
        self._count_displaced = count_displaced
        self._runners: dict[str, PlanRunner] = {}
        """Queued and running, by id, in the order in which they were sent."""
        self._positions = PlanPositions(store, tasks)
        self._ended: dict[str, PlanProgress] = {}
        """The latest of each id, in the order in which they ended."""
        self._unsubscribe: Callable[[], None] | None = None
        self._change = asyncio.Lock()
        """Held from what is in the store to what runs: of two plans that are sent under one id at the same time, by
        several workers, the one that stays in the store runs."""
        self._ticks = 0
        self._is_ticking = False
        self._started = asyncio.Event()
        self.is_closed = False

    # What plans there are

    async def start(self) -> None:
        """Takes up the plans of the process before this one."""
        self._ahead.drop_all()
        try:
            for plan in await self._store.plans():
                async with self._change:
                    if plan not in self._runners:  # else it was sent meanwhile
                        with suppress(Throttled):  # of one that was sent while nobody counted them
                            await self._load(plan, is_resumed=True)
        finally:
            self._started.set()

    async def wait_started(self) -> None:
        """Waits until the plans of the process before this one are known."""
        await self._started.wait()

    async def add(self, plan: str) -> None:
        """Queues a plan that was stored, in place of one with the same id. Raises Throttled."""
        async with self._change:
            await self._load(plan)

    async def _load(self, plan: str, *, is_resumed: bool = False) -> None:
        """`is_resumed`: a process before this one may have begun it. Raises Throttled, and removes the plan, if there
        is no slot for it."""
        loaded = await self._store.load(plan)
        if loaded is None:
            _log.info("plan %s was removed before it could run", plan)
            self.stop(plan)
            return
        record, entries, start = loaded
        if is_resumed and start.unread is None:  # it was killed before it could record anything
            start = start._replace(unread=frozenset())
        current = self._runners.get(plan)
        if self.is_closed or (current is not None and current.record.version == record.version):
            entries.close()
            return
        if current is not None:
            del self._runners[plan]
            current.close("cancelled")
        elif len(self._runners) >= MAX_PLANS and not await self._make_room(record.principal):
            entries.close()
            await self._store.remove(record)
            own = sum(runner.record.principal == record.principal for runner in self._runners.values())
            raise Throttled(
                f"{MAX_PLANS} plans are running or queued, {own} of them this access key's: delete one, or wait"
            )
        self._queue(record, entries, start)

    async def _make_room(self, principal: str) -> bool:
        """Ends a plan of the access key with the most, if `principal` has fewer."""
        slots = [
            PlanSlot(plan, runner.record.principal, runner.state, bool(runner.record.recording))
            for plan, runner in self._runners.items()
        ]
        displaced = plan_to_displace(slots, principal)
        if displaced is None:
            return False
        runner = self._runners[displaced]
        _log.info("plan %s/%s gives its slot to another key's", runner.record.bucket, runner.record.name)
        self.stop(displaced, "displaced")
        self._count_displaced()
        await self._store.remove(runner.record)
        return True

    def follow(self, record: PlanRecord, entries: OrderedEntries, start: PlanStart) -> PlanRunner | None:
        """Runs a plan for the rest of a recording, from `start` on. None: too many plans run."""
        if self.is_closed or len(self._runners) >= MAX_PLANS:
            return None
        self.stop(record.id)
        return self._queue(record, entries, start)

    def _queue(self, record: PlanRecord, entries: OrderedEntries, start: PlanStart) -> PlanRunner:
        self._node_reads.deliver()
        runner = self._runners[record.id] = PlanRunner(
            record,
            entries,
            start,
            self._ahead,
            self._allowance_of(record.bucket, record.principal),
            self._timers,
            self._tasks.spawn,
            self._clock,
            self._metrics,
        )
        self._begin_some()
        return runner

    def plans(self) -> list[PlanProgress]:
        """The plans that run or wait, and the latest that have ended."""
        live = [progress_of(runner) for runner in self._runners.values()]
        return [*live, *(each for plan, each in self._ended.items() if plan not in self._runners)]

    def _note_ended(self, runner: PlanRunner) -> None:
        self._ended.pop(runner.record.id, None)
        self._ended[runner.record.id] = progress_of(runner)
        if len(self._ended) > MAX_ENDED:  # the oldest of the key that has the most
            (principal, _), *_ = Counter(each.principal for each in self._ended.values()).most_common(1)
            del self._ended[next(plan for plan, each in self._ended.items() if each.principal == principal)]

    async def cancel(self, plan: str) -> bool:
        """Ends a plan. Returns whether it was running or queued."""
        async with self._change:
            runner = self._runners.get(plan)
            if runner is None or not self.stop(plan):
                return False
            await self._store.remove(runner.record)
            return True

    async def remove(self, plan: str) -> None:
        """Ends a plan. A plan that has ended already leaves its owner's list."""
        async with self._change:
            self.stop(plan)
            ended = self._ended.get(plan)
            if ended is not None:
                self._ended[plan] = replace(ended, is_removed=True)
            await self._store.remove_any(plan)

    def stop(self, plan: str, state: PlanState = "cancelled") -> bool:
        """Ends a plan, which stays in the store if it is there. Returns whether it was running or queued."""
        runner = self._runners.pop(plan, None)
        if runner is None:
            return False
        runner.close(state)
        self._note_ended(runner)
        self._begin_some()
        return True

    async def save_positions(self) -> None:
        """Records where the readers are, for the next process."""
        self._node_reads.deliver()
        await self._positions.save(list(self._runners.values()))

    def close(self) -> None:
        """Drops all prefetched bytes. The plans stay in the store."""
        self.is_closed = True
        for runner in self._runners.values():
            runner.close("cancelled")
        self._runners.clear()
        self._listen()

    def lead(self) -> tuple[int, float]:
        """The lead of all plans in bytes, and the shortest lead of a running one in seconds; 0 for none."""
        progresses = [progress_of(runner) for runner in self._runners.values() if runner.state == "running"]
        seconds = [each.lead_seconds for each in progresses if each.lead_seconds is not None]
        return sum(each.lead_bytes for each in progresses), min(seconds, default=0.0)

    # Running them

    def _begin_some(self) -> None:
        """Runs the plans whose turn it is in their series."""
        waiting = set[PlanSeries]()
        for plan, runner in list(self._runners.items()):
            series = series_of(runner.record)
            if runner.state == "queued" and series not in waiting:
                self._tasks.spawn(self._run(plan, runner), f"plan {runner.record.bucket}/{runner.record.name}")
                runner.state = "running"
            if not runner.has_fetched_all:
                waiting.add(series)
        self._listen()

    async def _run(self, plan: str, runner: PlanRunner) -> None:
        try:
            await runner.run()
        finally:
            if self._runners.get(plan) is runner and not self.is_closed:
                del self._runners[plan]
                self._note_ended(runner)
                _log.info("plan %s/%s is %s", runner.record.bucket, runner.record.name, runner.state)
                if not runner.record.recording:
                    with suppress(Throttled):  # the store has logged it
                        await self._store.remove(runner.record)
                self._begin_some()

    def _listen(self) -> None:
        if self._runners and self._unsubscribe is None:
            self._unsubscribe = self._node_reads.subscribe(self._follow)
        elif not self._runners and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._runners and not self._is_ticking:
            self._is_ticking = True
            self._timers.call_later(TICK_SECONDS, self._tick)

    def _follow(self, batch: ReadBatch) -> None:
        left: dict[PlanSeries, list[ObjectRead]] = {}
        """The reads that no earlier plan of a series has."""
        for runner in self._runners.values():
            series = series_of(runner.record)
            if runner.state == "queued":
                continue
            if series not in left:
                bucket, principal, _ = series
                left[series] = [
                    read for read in batch.reads if read.name.bucket == bucket and read.principal == principal
                ]
            if left[series]:
                left[series] = runner.match(left[series])

    def _tick(self) -> None:
        self._is_ticking = False
        self._ticks += 1
        self._begin_some()
        if self._ticks % RECORD_TICKS == 0:
            self._positions.record(self._runners.values())

    def _allowance_of(self, bucket: str, principal_id: str) -> Callable[[], Allowance | None]:
        """The rights of a plan of this principal, by the policy in force at each call."""
        known: tuple[GatewayPolicy, Allowance | None] | None = None

        def allowance() -> Allowance | None:
            nonlocal known
            policy = self._policy()
            if known is None or known[0] is not policy:
                known = policy, self._allowance(policy, bucket, principal_id)
            return known[1]

        return allowance

    def _allowance(self, policy: GatewayPolicy, bucket: str, principal_id: str) -> Allowance | None:
        keyring = policy.keyring
        principal = keyring.open_principal or keyring.principals.get(principal_id, keyring.anonymous)
        if principal is None or principal.id != principal_id:
            return None

        def horizon(name: ObjectName) -> int:
            running = sum(runner.state == "running" for runner in self._runners.values())
            return min(policy.rules.decide(name).plan_horizon, self._capacity() // max(1, running))

        permits = ReadPermits(principal, bucket)
        return Allowance(
            lambda name: permits.permit(name) is not None,
            keyring.origin_identities.get(principal_id),
            horizon,
            lambda name: policy.rules.decide(name).rule,
        )


def series_of(record: PlanRecord) -> PlanSeries:
    """The series of a plan."""
    return record.bucket, record.principal, record.name.rpartition("/")[0] or f"/{record.name}"


def plans_of(plans: Sequence[PlanProgress], bucket: str, principal: str) -> list[PlanProgress]:
    """Returns the plans of one principal in one bucket, without the removed ones."""
    return [plan for plan in plans if plan.bucket == bucket and plan.principal == principal and not plan.is_removed]
