"""Demand comes before plans: how many requests of plans the origin sees between a read's arrival and its own request.

No time is measured. The origin holds each request of a plan until the test opens its gate, so that what begins is
decided by the turns alone. Reads beside plans that fetch as much as they may:

    turns of the origin   free of plans ──> a read begins at once, however many entries wait
                          all in use    ──> the next that is given back is a read's, not a plan's
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.clients import path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.raw_connection import RawAnswer
from harness.rig import Rig

TURNS = 16
BESIDE_PLANS = 2
"""Turns that stay free of plans, one in eight."""
ENTRIES = 40
RULES = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
ORIGIN = f'concurrency = {TURNS}\nhedge_after = "0s"\n'


@dataclass
class BusyPlans:
    """Plans with more to fetch than there are turns, and reads beside them; all wait at gates of the origin."""

    origin: FakeOrigin
    rig: Rig
    gates: dict[str, Gate] = field(default_factory=dict)

    def add_objects(self, kind: str, count: int) -> list[str]:
        keys = [f"{kind}/{number:03}" for number in range(count)]
        for key in keys:
            self.origin.store.put("b", key, key.encode())
            self.gates[key] = Gate()
            self.origin.faults.add(actions.HoldRequest(self.gates[key]), key=key)
        return keys

    @property
    def begun(self) -> list[str]:
        """The keys whose requests have come to the origin, in their order."""
        return [each.key for each in self.origin.log.requests if each.key in self.gates]

    def planned(self) -> int:
        return sum(key.startswith("plan") for key in self.begun)

    async def send(self, plan: str) -> list[str]:
        keys = self.add_objects(plan, ENTRIES)
        path = path_of("b", f".forebay/plans/{plan}")
        answer = await self.rig.client().request("PUT", path, (), "\n".join(keys).encode())
        assert answer.status == 200, answer.body
        return keys

    async def read(self, key: str) -> RawAnswer:
        return await self.rig.client().request("GET", path_of("b", key))

    def open_all(self) -> None:
        for gate in self.gates.values():
            gate.open()


@asynccontextmanager
async def busy_plans(directory: Path) -> AsyncIterator[BusyPlans]:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, directory, rest=RULES, origin=ORIGIN) as rig:
        test = BusyPlans(origin, rig)
        assert rig.parts.origins.of("b").reads.capacity == TURNS
        await test.send("plan-a")
        await test.send("plan-b")
        await run_loop_until(lambda: test.planned() == TURNS - BESIDE_PLANS)
        try:
            yield test
        finally:
            test.open_all()
        for plan in ("plan-a", "plan-b"):
            await rig.client().request("DELETE", path_of("b", f".forebay/plans/{plan}"))
        await rig.wait_idle()
        turns = rig.parts.origins.of("b").reads
        assert (turns.in_use, turns.background.in_use, turns.background.waiting) == (0, 0, 0)


async def test_a_read_begins_before_any_further_entry_of_a_plan(tmp_path: Path) -> None:
    async with busy_plans(tmp_path) as test, asyncio.TaskGroup() as group:
        for key in test.add_objects("read", 6):
            before = test.planned()
            reading = group.create_task(test.read(key))
            await test.gates[key].reached()
            assert test.planned() == before, "requests of plans between the arrival of a read and its own"
            test.gates[key].open()
            assert (await reading).body == key.encode()


async def test_the_next_free_turn_is_a_reads(tmp_path: Path) -> None:
    async with busy_plans(tmp_path) as test, asyncio.TaskGroup() as group:
        turns = test.rig.parts.origins.of("b").reads
        keys = test.add_objects("read", 6)
        readings = [group.create_task(test.read(key)) for key in keys]
        await run_loop_until(lambda: turns.in_use == TURNS and turns.waiting == len(keys) - BESIDE_PLANS)
        held = list(test.begun)
        planned = [key for key in held if key.startswith("plan")]
        for key in planned[: len(keys) - BESIDE_PLANS]:
            test.gates[key].open()  # a fetch of a plan ends, and its turn is free
            begun = len(held) + 1
            await run_loop_until(lambda: len(test.begun) >= begun)  # noqa: B023 # called within the turn
            held = list(test.begun)
            assert held[-1] in keys, "a plan has got a turn that a read waited for"
        for key in keys:
            test.gates[key].open()
        assert [(await reading).body for reading in readings] == [key.encode() for key in keys]


async def test_plans_go_on_when_reads_have_ended(tmp_path: Path) -> None:
    async with busy_plans(tmp_path) as test, asyncio.TaskGroup() as group:
        planned = [key for key in test.begun if key.startswith("plan")]
        background = test.rig.parts.origins.of("b").reads.background
        [key] = test.add_objects("read", 1)
        reading = group.create_task(test.read(key))
        await test.gates[key].reached()
        for number, each in enumerate(planned[:2]):
            test.gates[each].open()
            await run_loop_until(lambda: background.in_use == len(planned) - 1 - number)  # noqa: B023 # called within the turn
        assert test.planned() == len(planned), "beside a read, plans have a quarter of the turns"
        test.gates[key].open()
        assert (await reading).status == 200
        # A turn that is given back serves them; so does the next that they give back themselves.
        test.gates[planned[2]].open()
        await run_loop_until(lambda: test.planned() == len(planned) + 3)
