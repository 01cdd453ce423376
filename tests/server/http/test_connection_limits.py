"""Time limits of connections: stalled clients, timeouts, and how long the rest of a refused body is read."""

import asyncio
import selectors
from collections.abc import Mapping

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestPayloadError

from forebay.core.fair_semaphore import FairSemaphore, SemaphoreShare
from forebay.server.http.connection_limits import ConnectionLimits, StallTimer, Timeout, linger
from harness.manual_timers import ManualTimers

LIMITS = ConnectionLimits(8192, 1, 1, 1.0, 1.0)


def stall_timer(timers: ManualTimers) -> tuple[StallTimer, list[int], list[float]]:
    """A timer of one second, the bytes that its client has accepted so far, and when it was given up."""
    accepted, given_up = [0], list[float]()
    return StallTimer(timers, 1.0, lambda: accepted[0], lambda: given_up.append(timers.time())), accepted, given_up


def test_a_client_that_accepts_nothing_is_given_up_in_time() -> None:
    timers, budget = ManualTimers(), FairSemaphore(100)
    timer, accepted, given_up = stall_timer(timers)
    timer.start(60, SemaphoreShare(budget, 1))
    assert budget.in_use == 60
    timers.advance(0.9)
    accepted[0] += 1
    timers.advance(1.0)
    assert given_up == []
    timers.advance(0.1)
    assert given_up == [2.0]
    timer.stop()
    assert budget.in_use == 0


def test_bytes_that_the_budget_lacks_are_watched_all_the_same() -> None:
    timers, budget = ManualTimers(), FairSemaphore(10)
    timer, _, given_up = stall_timer(timers)
    timer.start(60, SemaphoreShare(budget, 1))
    timers.advance(1.0)
    timer.close()
    assert (given_up, budget.in_use) == ([1.0], 0)


def test_a_stopped_stall_timer_gives_nobody_up() -> None:
    timers, budget = ManualTimers(), FairSemaphore(100)
    timer, _, given_up = stall_timer(timers)
    timer.start(60, SemaphoreShare(budget, 1))
    timer.stop()
    timer.stop()
    timers.advance(10.0)
    assert (given_up, budget.in_use) == ([], 0)


async def test_a_timeout_ends_its_block_when_the_clock_says_so() -> None:
    timers, ended = ManualTimers(), asyncio.Event()

    async def wait() -> None:
        async with Timeout(timers, 1.0):
            await ended.wait()

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait())
        await timers.armed(1.0)
        timers.advance(0.9)
        ended.set()
        await waiting
    ended.clear()
    with timers.flowing(0.1), pytest.raises(TimeoutError):
        await wait()


class Impatient(selectors.DefaultSelector):
    """Never waits; adds up how long it was to wait."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waited += max(0.0, timeout or 0.0)
        return super().select(0)


class Jumping(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer."""

    def __init__(self) -> None:
        self.selector = Impatient()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.waited


def lingered(arrivals: Mapping[float, bytes | Exception | None]) -> tuple[float, bool]:
    """The seconds after which `linger` returned, and whether the body had ended. `arrivals`: None for the end."""

    async def scenario() -> tuple[float, bool]:
        loop = asyncio.get_running_loop()
        protocol = BaseProtocol(loop)
        protocol.connection_made(asyncio.Transport())
        content = StreamReader(protocol, 1 << 16, loop=loop)
        for moment, arrival in arrivals.items():
            match arrival:
                case None:
                    loop.call_later(moment, content.feed_eof)
                case bytes():
                    loop.call_later(moment, content.feed_data, arrival)
                case _:
                    loop.call_later(moment, content.set_exception, arrival)
        await linger(content, loop)
        return round(loop.time(), 3), content.is_eof()

    with asyncio.Runner(loop_factory=Jumping) as runner:
        return runner.run(scenario())


def every(seconds: float, until: float) -> dict[float, bytes | Exception | None]:
    return {seconds * number: bytes(100_000) for number in range(1, int(until / seconds) + 1)}


def test_the_rest_of_a_body_is_read_while_it_comes() -> None:
    assert lingered({0.5: None}) == (0.5, True)
    assert lingered({**every(4, 24), 26.0: None}) == (26, True)


@pytest.mark.parametrize(
    ("arrivals", "seconds"),
    [({}, 5), ({7.0: b"late"}, 5), ({4.0: b"x"}, 9), (every(4, 100), 30), (every(0.01, 40), 30)],
)
def test_the_rest_of_a_body_is_read_within_its_limits(
    arrivals: Mapping[float, bytes | Exception | None], seconds: float
) -> None:
    assert lingered(arrivals) == (seconds, False)


@pytest.mark.parametrize("error", [RequestPayloadError("malformed"), ConnectionResetError()])
def test_a_malformed_or_broken_body_is_not_waited_for(error: Exception) -> None:
    assert lingered({1.0: b"x", 2.0: error}) == (2, False)
