"""Hang detection: not for one missed ping, nor because the worker has exited. A start that answers pings may last."""

import asyncio

import pytest

from forebay.core.errors import OriginBroken, PeerUnavailable
from forebay.workers.worker_process import MAX_MISSED_PINGS, MAX_STARTS_LATE, wait_answered, wait_until_hung


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


async def test_a_start_that_answers_pings_may_last() -> None:
    """The first worker with a journal of many writes took more than a minute, was killed and began anew, for ever."""
    worker, served = Worker("...."), asyncio.Event()

    async def start() -> dict[str, str]:
        await served.wait()
        return {"is": "serving"}

    async def ping() -> None:
        await worker.ping()
        if worker.pinged == 4:
            served.set()

    assert await wait_answered(start(), ping, seconds=0.0) == {"is": "serving"}
    assert worker.pinged == 4


@pytest.mark.parametrize("script", ["-", ".-", "..x"])
async def test_a_start_that_answers_no_ping_is_given_up(script: str) -> None:
    worker, cancelled = Worker(script), asyncio.Event()

    async def start() -> dict[str, str]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    with pytest.raises(TimeoutError, match=f"within {len(script) / 1000:g} s, and answers no ping"):
        await wait_answered(start(), worker.ping, seconds=0.001, ping_timeout=0.001)
    await cancelled.wait()
    assert worker.pinged == len(script)


async def test_a_start_that_answers_pings_for_ever_is_given_up() -> None:
    worker = Worker("." * (MAX_STARTS_LATE + 1))
    said = f"within {MAX_STARTS_LATE / 1e6:g} s, though it answers pings"
    with pytest.raises(TimeoutError, match=said):
        await wait_answered(asyncio.Event().wait(), worker.ping, seconds=1e-6)  # type: ignore[arg-type] # never answers
    assert worker.pinged == MAX_STARTS_LATE


async def test_a_start_that_fails_says_why() -> None:
    async def start() -> dict[str, str]:
        raise OriginBroken("a defect")

    with pytest.raises(OriginBroken, match="a defect"):
        await wait_answered(start(), Worker("-").ping)
