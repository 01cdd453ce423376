"""How long what is left of a body is waited for: while it comes, and not for ever."""

import asyncio
import selectors
from collections.abc import Mapping

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestPayloadError

from forebay.server.http.connection_limits import ConnectionLimits, linger

LIMITS = ConnectionLimits(8192, 1, 1, 1.0, 1.0)


class Impatient(selectors.DefaultSelector):
    """Does not wait: says how long it should have."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waited += max(0.0, timeout or 0.0)
        return super().select(0)


class Jumping(asyncio.SelectorEventLoop):
    """A loop whose clock goes as far as it would have waited."""

    def __init__(self) -> None:
        self.selector = Impatient()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.waited


def lingered(arrivals: Mapping[float, bytes | Exception | None]) -> tuple[float, bool]:
    """After how many seconds it gave up, and whether the body had ended; given what comes when, None for the end."""

    async def scenario() -> tuple[float, bool]:
        loop = asyncio.get_running_loop()
        protocol = BaseProtocol(loop)
        protocol.connection_made(asyncio.Transport())
        content = StreamReader(protocol, 1 << 16, loop=loop)
        for moment, what in arrivals.items():
            match what:
                case None:
                    loop.call_later(moment, content.feed_eof)
                case bytes():
                    loop.call_later(moment, content.feed_data, what)
                case _:
                    loop.call_later(moment, content.set_exception, what)
        await linger(content, LIMITS, loop)
        return round(loop.time(), 3), content.is_eof()

    with asyncio.Runner(loop_factory=Jumping) as runner:
        return runner.run(scenario())


def every(seconds: float, until: float) -> dict[float, bytes | Exception | None]:
    return {seconds * number: bytes(100_000) for number in range(1, int(until / seconds) + 1)}


def test_it_is_read_to_its_end_while_it_comes() -> None:
    assert lingered({0.5: None}) == (0.5, True)
    assert lingered({**every(4, 24), 26.0: None}) == (26, True)


@pytest.mark.parametrize(
    ("arrivals", "seconds"),
    [({}, 5), ({7.0: b"late"}, 5), ({4.0: b"x"}, 9), (every(4, 100), 30), (every(0.01, 40), 30)],
)
def test_it_is_waited_for_no_longer_than_it_may(
    arrivals: Mapping[float, bytes | Exception | None], seconds: float
) -> None:
    assert lingered(arrivals) == (seconds, False)


@pytest.mark.parametrize("error", [RequestPayloadError("malformed"), ConnectionResetError()])
def test_what_is_malformed_or_gone_is_not_waited_for(error: Exception) -> None:
    assert lingered({1.0: b"x", 2.0: error}) == (2, False)
