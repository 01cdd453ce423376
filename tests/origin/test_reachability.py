"""The probes of the origin: one at a time, at once upon a suspicion, then every cooldown; the log."""

import asyncio
import logging

import pytest

from forebay.core.errors import OriginUnreachable
from forebay.origin.breaker import Breaker, BreakerState
from forebay.origin.http.transport_errors import ConnectionFault
from forebay.origin.reachability import ReachabilityProbe
from harness.inspection import run_loop_until

COOLDOWN = 7.0


class Probed:
    """An origin that answers as `results` say, the reason of a failure or None, once the test lets it; and a clock."""

    def __init__(self, threshold: int = 1) -> None:
        self.now = 100.0
        self.sent = 0
        self.pauses: list[float] = []
        self.results: asyncio.Queue[str | None] = asyncio.Queue()
        self.breaker = Breaker(threshold)
        self.probe = ReachabilityProbe(
            self.breaker, self.send, "http://origin", COOLDOWN, monotonic=lambda: self.now, sleep=self.sleep
        )

    async def send(self) -> None:
        self.sent += 1
        reason = await self.results.get()
        if reason is not None:
            raise ConnectionFault(OriginUnreachable(reason), connected=False)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


async def test_callers_share_a_probe() -> None:
    probed = Probed()
    async with asyncio.TaskGroup() as group:
        checks = [group.create_task(probed.probe.check()) for _ in range(3)]
        await run_loop_until(lambda: probed.sent > 0)
        probed.results.put_nowait(None)
    assert [check.result() for check in checks] == [True] * 3
    assert probed.sent == 1


async def test_a_caller_that_leaves_ends_no_probe() -> None:
    probed = Probed()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(probed.probe.check())
        await run_loop_until(lambda: probed.sent > 0)
        second = group.create_task(probed.probe.check())
        first.cancel()
        probed.results.put_nowait("connection refused")
    assert second.result() is False
    assert probed.sent == 1


async def test_a_suspicion_is_probed_until_the_origin_responds(caplog: pytest.LogCaptureFixture) -> None:
    probed = Probed()
    with caplog.at_level(logging.INFO, "forebay"):
        probed.breaker.failed()
        probed.probe.watch()
        probed.probe.watch()  # one watch at a time
        for reason in ("connection refused", "name not resolved", None):
            probed.results.put_nowait(reason)
        await run_loop_until(lambda: probed.breaker.state is BreakerState.CLOSED)
    assert probed.sent == 3
    assert probed.pauses == [COOLDOWN] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "the origin http://origin can't be reached: connection refused",
        "the breaker is open: until the origin responds, requests to it fail at once",
        "the origin http://origin answers again, after 14 s",
    ]


async def test_a_closed_breaker_is_not_watched() -> None:
    probed = Probed(threshold=2)
    probed.breaker.failed()
    probed.probe.watch()
    await asyncio.sleep(0)
    assert probed.sent == 0


async def test_a_response_meanwhile_refutes_a_failed_probe() -> None:
    probed = Probed()
    async with asyncio.TaskGroup() as group:
        check = group.create_task(probed.probe.check())
        await run_loop_until(lambda: probed.sent > 0)
        probed.breaker.succeeded()
        probed.results.put_nowait("no answer in time")
    assert check.result() is True


async def test_close_ends_the_probes() -> None:
    probed = Probed()
    probed.breaker.failed()
    probed.probe.watch()
    await run_loop_until(lambda: probed.sent > 0)
    await probed.probe.close()
    assert probed.breaker.state is BreakerState.SUSPECTED
