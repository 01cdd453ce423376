"""Plans in a world of the reference model: what was sent, what was read since, and what of it their progress may say.

A plan is a hint: what reads answer is the same with it. So the model of a plan is of its bookkeeping alone.
"""

import asyncio
import json
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from xml.etree import ElementTree as Tree

from forebay.core.plan_progress import LIVE_STATES, PlanProgress
from forebay.core.read_stream import BATCH_SECONDS
from forebay.server.composition import Parts
from harness.background_turns import is_fetching_ahead
from harness.clients import path_of
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.memory_exchange import MemoryReply

_FOLDER = ".forebay/plans/"


class Ask(Protocol):
    """Sends a request to a target."""

    def __call__(
        self, method: str, target: str, *headers: tuple[str, str], body: bytes = b""
    ) -> Awaitable[MemoryReply]: ...


@dataclass
class SentPlan:
    """A plan that was sent."""

    keys: Sequence[str]
    read: set[str] = field(default_factory=set)
    """Keys that were asked for since."""
    is_removed: bool = False
    is_of_this_run: bool = True

    @property
    def furthest(self) -> int:
        """The entry behind the last one that may have been read."""
        return max((number + 1 for number, key in enumerate(self.keys) if key in self.read), default=0)

    def may_be(self, progress: PlanProgress | None) -> bool:
        """Whether its progress may be this; None: it is not known."""
        may_have_ended = self.furthest == len(self.keys)
        if progress is None or self.is_removed:
            return progress is None and (self.is_removed or (not self.is_of_this_run and may_have_ended))
        states = {*LIVE_STATES, *(["done"] if may_have_ended else [])}
        return (
            progress.state in states
            and (progress.entries, progress.dropped) == (len(self.keys), 0)
            and progress.position <= self.furthest
            and progress.late <= progress.read <= len(self.keys)
        )


class PlanSteps:
    """The plans of a bucket."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self._sent: dict[str, SentPlan] = {}

    def note_read(self, key: str) -> None:
        """An object was asked for."""
        for plan in self._sent.values():
            plan.read.add(key)

    def restart(self) -> None:
        """Another Forebay goes on with the plans."""
        for plan in self._sent.values():
            plan.is_of_this_run = False

    async def send(self, ask: Ask, name: str, keys: Sequence[str]) -> None:
        """Send a plan, in place of one of that name."""
        body = "".join(f"{key}\n" for key in keys).encode()
        reply = await ask("PUT", path_of(self._bucket, _FOLDER + name), body=body)
        assert (reply.status, reply.headers["x-forebay-plan-entries"]) == (200, str(len(keys))), reply
        self._sent[name] = SentPlan(keys)

    async def cancel(self, ask: Ask, name: str) -> None:
        """Cancel a plan, if there is one."""
        reply = await ask("DELETE", path_of(self._bucket, _FOLDER + name))
        assert reply.status == 204, reply
        assert await self._progress(ask, name) is None
        if (plan := self._sent.get(name)) is not None:
            plan.is_removed = True

    async def check_given_back(self, parts: Parts) -> None:
        """Without a live plan nothing waits for a reader: what was fetched ahead was read or given up."""
        await run_loop_until(lambda: _has_no_fetch(parts))
        if not any(plan.state in LIVE_STATES for plan in parts.jobs.plans.coordinator.plans()):
            assert parts.jobs.prefetcher.tickets == 0

    async def check(self, ask: Ask) -> None:
        """Look at every plan, and at their list."""
        reply = await ask("GET", f"/{self._bucket}?list-type=2&prefix={_FOLDER}")
        assert reply.status == 200, reply
        listed = {
            (each.text or "").removeprefix(_FOLDER)
            for each in Tree.fromstring(bytes(reply.body)).iterfind("{*}Contents/{*}Key")
        }
        found = {name: await self._progress(ask, name) for name in self._sent}
        for name, progress in found.items():
            assert self._sent[name].may_be(progress), (self._sent[name], progress)
        assert listed == {name for name, progress in found.items() if progress is not None}

    async def _progress(self, ask: Ask, name: str) -> PlanProgress | None:
        reply = await ask("GET", path_of(self._bucket, _FOLDER + name))
        assert reply.status in {200, 404}, reply
        return PlanProgress(**json.loads(bytes(reply.body))) if reply.status == 200 else None

    # A plan that is read as it was sent

    async def settle(self, parts: Parts, timers: ManualTimers, name: str) -> PlanProgress:
        """The progress of a plan, once the reads so far were delivered and all that it wants ahead is here."""
        timers.advance(BATCH_SECONDS)
        await run_loop_until(lambda: self._is_settled(parts, name))
        return _progress_of(parts, name)

    def _is_settled(self, parts: Parts, name: str) -> bool:
        plan = _progress_of(parts, name)
        is_begun = plan.state not in LIVE_STATES or plan.read + plan.lead_entries == plan.entries
        return is_begun and _has_no_fetch(parts)


def _has_no_fetch(parts: Parts) -> bool:
    return not is_fetching_ahead(parts) and not any(
        task.get_name().startswith("fetch ") for task in asyncio.all_tasks()
    )


def _progress_of(parts: Parts, name: str) -> PlanProgress:
    return next(plan for plan in parts.jobs.plans.coordinator.plans() if plan.name == name)
