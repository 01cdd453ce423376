"""Hang detection: not for one missed ping, nor because the worker has exited."""

import asyncio

import pytest

from forebay.core.errors import OriginBroken, PeerUnavailable
from forebay.workers.worker_process import MAX_MISSED_PINGS, wait_until_hung


class Worker:
    """Answers pings by a script whose last step repeats: `.` in time, `-` never, `x` exited, `!` a failure."""

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
async def test_missed_pings_in_a_row_are_a_hang(script: str, pinged: int) -> None:
    worker = Worker(script)
    assert "not answered" in await wait_until_hung(worker.ping, lambda: True, interval=0.0, ping_timeout=0.001)
    assert worker.pinged == pinged


async def test_worker_without_a_socket_is_given_up() -> None:
    worker = Worker(".")
    assert "removed" in await wait_until_hung(worker.ping, lambda: worker.pinged < 3, interval=0.0, ping_timeout=1.0)


async def test_exited_worker_is_pinged_with_pauses() -> None:
    """Until the supervisor has noticed its exit."""
    worker = Worker("-x")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await wait_until_hung(worker.ping, lambda: True, interval=0.01, ping_timeout=0.001)
    assert worker.pinged < 20
