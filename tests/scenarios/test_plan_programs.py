"""Plans between everything else, as random programs: what is planned is deleted and overwritten by this Forebay's
clients and by others, rules turn plans off and on, quotas are reached and the disk is full.

A plan is a hint. So reads answer what they may answer without it, and in the end nothing is left of it: each Rig checks
that when it stops.
"""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from harness.background_turns import is_fetching_ahead
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.file_limit import file_size_limit
from harness.inspection import run_loop_until
from harness.plan_rig import text
from harness.rig import Rig

KEYS = [f"open/{number:02}" for number in range(24)]
FRESHNESS = 60
RULES = [
    "",
    'plan_horizon = "0B"',
    'plan_horizon = "40000B"',
    'eviction = "epoch"\nquota = "1MiB"',
    'quota = "2MiB"',
    "record = true\nfollow = true",
]
STEPS = 60


def rule_of(settings: str) -> str:
    return f'[[rules]]\npath = "**"\nname = "all"\nblock = "64KiB"\nfreshness = "{FRESHNESS}s"\n{settings}\n'


class Program:
    """One program. `may_have`: what a read of each key may answer; None: that there is none."""

    def __init__(self, random: Random, rig: Rig, origin: FakeOrigin) -> None:
        self.random, self.rig, self.origin = random, rig, origin
        self.rules = rig.configuration
        self.may_have: dict[str, set[bytes | None]] = {}
        self.at_origin: dict[str, bytes | None] = {}
        self.orders: dict[str, list[str]] = {}
        self.limit = ExitStack()
        self.is_full = False
        self.version = 0
        for key in KEYS:
            self.foreign_write(key)
            self.may_have[key] = {self.at_origin[key]}

    def content(self) -> bytes:
        self.version += 1
        size = self.random.choice([0, 1, 5_000, 20_000, 70_000, 150_000])
        return (f"{self.version}-".encode() * (size // 2 + 1))[:size]

    def foreign_write(self, key: str) -> None:
        content = None if self.random.random() < 0.2 else self.content()
        if content is None:
            self.origin.store.delete("b", key)
        else:
            self.origin.store.put("b", key, content)
        self.at_origin[key] = content
        self.may_have.setdefault(key, {None}).add(content)

    async def settle(self) -> None:
        """What is older than this is not fresh any more. No request is under way meanwhile: a minute is long for one,
        and a reader that joins it gets what the origin had when it was sent."""

        def is_idle() -> bool:
            tasks = (task.get_name().startswith("fetch ") for task in asyncio.all_tasks())
            return not any(tasks) and not is_fetching_ahead(self.rig.parts)

        await run_loop_until(is_idle)
        self.rig.advance_clock(FRESHNESS + 1)
        for key in KEYS:
            self.may_have[key] = {self.at_origin[key]}

    async def read(self, key: str) -> None:
        start = self.random.choice([None, None, 0, 100, 66_000])
        headers = [] if start is None else [("Range", f"bytes={start}-{start + 9_999}")]
        answer = await self.rig.client().request("GET", path_of("b", key), headers)
        body = bytes(answer.body)
        first = 0 if answer.status == 200 else start or 0
        last = None if answer.status == 200 else first + 10_000
        found = {each[first:last] for each in self.may_have[key] if each is not None}
        match answer.status:
            case 200 | 206 if len(body) < int(answer.headers["content-length"]):
                # Cached in part, and gone at the origin: the body breaks off, which the client sees.
                assert any(each.startswith(body) for each in found), (key, start, body[:20])
                assert len(self.may_have[key]) > 1
            case 200 | 206:
                assert body in found, (key, start, body[:20])
            case 416:
                assert start is not None
                assert any(each is not None and len(each) <= start for each in self.may_have[key]), (key, start)
            case status:
                assert (status, None in self.may_have[key]) == (404, True), (key, status, body)

    async def write(self, key: str) -> None:
        if self.random.random() < 0.3:
            content, answer = None, await self.rig.client().request("DELETE", path_of("b", key))
        else:
            content = self.content()
            answer = await self.rig.client().request("PUT", path_of("b", key), (), content)
        assert answer.status in {200, 204}, answer.body
        self.at_origin[key] = content
        self.may_have[key] = {content}

    async def send(self) -> None:
        name, order = self.random.choice("xyz"), self.random.choices(KEYS, k=self.random.choice([1, 24, 60]))
        body = b"".join(
            line + self.random.choice([b"", b"", b"\t0-999", b"\t60000-"]) + b"\n" for line in text(order).splitlines()
        )
        answer = await self.rig.client().request("PUT", path_of("b", f".forebay/plans/{name}"), (), body)
        assert answer.status == 200 or self.is_full, answer.body
        if answer.status == 200:
            self.orders[name] = order

    async def cancel(self, name: str) -> None:
        answer = await self.rig.client().request("DELETE", path_of("b", f".forebay/plans/{name}"))
        assert answer.status == 204, answer.body
        self.orders.pop(name, None)

    async def read_on(self) -> None:
        """Some reads in the order of a plan, several at once."""
        if self.orders:
            order = self.random.choice(list(self.orders.values()))
            count = self.random.choice([1, 5, 20])
            await asyncio.gather(*(self.read(key) for key in order[:count]))
            del order[:count]

    async def reload(self) -> None:
        rest = rule_of(self.random.choice(RULES))
        self.rig.configuration = self.rules + rest
        (self.rig.directory / "forebay.toml").write_text(self.rig.configuration)
        await self.rig.worker.reload()

    def fill_disk(self) -> None:
        self.limit.close()
        self.is_full = not self.is_full
        if self.is_full:
            self.limit.enter_context(file_size_limit(30_000))

    async def step(self) -> None:
        key = self.random.choice(KEYS)
        match self.random.choices(range(9), (4, 6, 8, 4, 4, 2, 2, 1, 1))[0]:
            case 0:
                await self.send()
            case 1:
                await self.read_on()
            case 2:
                await self.read(key)
            case 3:
                await self.write(key)
            case 4:
                self.foreign_write(key)
            case 5:
                await self.settle()
            case 6:
                await self.reload()
            case 7:
                self.fill_disk()
            case _:
                await self.cancel(self.random.choice("xyz"))


@pytest.mark.parametrize("seed", range(6))
async def test_plans_between_everything_else(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    ssd = random.choice([None, "8MiB"])
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, ssd=ssd, memory="1MiB", rest="") as rig,
    ):
        origin.store.create_bucket("b")
        program = Program(random, rig, origin)
        with program.limit:
            await program.reload()
            for _ in range(STEPS):
                await program.step()
        await program.settle()
        for key in KEYS:
            await program.read(key)
        for name in "xyz":
            await program.cancel(name)
        plans, prefetcher = rig.parts.jobs.plans.coordinator, rig.parts.jobs.prefetcher
        await run_loop_until(lambda: prefetcher.tickets == 0)
        assert not [plan for plan in plans.plans() if plan.name in "xyz" and not plan.is_removed]
