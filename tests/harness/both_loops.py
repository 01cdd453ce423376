"""Scenarios on both loops that Forebay runs on: what is sent past the transport depends on the transport."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest
import uvloop

from forebay.server.event_loop import sliced_loop

BOTH_LOOPS: Final = pytest.mark.parametrize(
    "loop", [sliced_loop(asyncio.SelectorEventLoop), sliced_loop(uvloop.Loop)], ids=["asyncio", "uvloop"]
)


def run_on(loop: Callable[[], asyncio.AbstractEventLoop], scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a scenario to its end."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario)
