"""When a worker is given up: not for one ping that it missed, nor because it has ended."""

import asyncio

import pytest

from forebay.core.errors import OriginBroken, PeerUnavailable
from forebay.workers.worker_process import MAX_MISSED_PINGS, wait_until_hung


class Worker:
    """Answers pings as is scripted, then with the last for good: in time, never, as one that has ended, or with a
    failure."""

    def __init__(self, script: str) -> None:
        self._script = script
        self.pinged = 0

    async def ping(self) -> None:
        answer = self._script[min(self.pinged, len(self._script) - 1)]
        self.pinged += 1
        match answer:
            case "-":
                await asyncio.Event().wait()
            case "x":
                raise PeerUnavailable("ended")
            case "!":
                raise OriginBroken("a defect")


@pytest.mark.parametrize(
    ("script", "pinged"),
    [
        ("-", MAX_MISSED_PINGS),
        ("..-", 2 + MAX_MISSED_PINGS),
        ("----.-", MAX_MISSED_PINGS + MAX_MISSED_PINGS),
        ("----x-", MAX_MISSED_PINGS + MAX_MISSED_PINGS),
        ("----!----.-", MAX_MISSED_PINGS + MAX_MISSED_PINGS + MAX_MISSED_PINGS),
    ],
)
async def test_one_that_misses_so_many_in_a_row_hangs(script: str, pinged: int) -> None:
    worker = Worker(script)
    assert "not answered" in await wait_until_hung(worker.ping, lambda: True, interval=0.0, ping_timeout=0.001)
    assert worker.pinged == pinged


async def test_one_that_can_not_be_reached_is_given_up_though_it_answers() -> None:
    worker = Worker(".")
    assert "removed" in await wait_until_hung(worker.ping, lambda: worker.pinged < 3, interval=0.0, ping_timeout=1.0)


async def test_one_that_ends_lets_others_have_their_turn() -> None:
    """It is asked for nothing until it is buried, but not without a pause."""
    worker = Worker("-x")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await wait_until_hung(worker.ping, lambda: True, interval=0.01, ping_timeout=0.001)
    assert worker.pinged < 20
