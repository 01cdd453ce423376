"""Scenarios on both loops that Forebay runs on: what is sent past the transport depends on the transport."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest
import uvloop

from forebay.server.event_loop import sliced_loop

_NEVER_PAUSES: Final = (3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2)
"""Whether `writelines` of asyncio's transport tells no protocol that its buffer is full (CVE-2024-12254)."""
NEEDS_PAUSES: Final = pytest.mark.skipif(_NEVER_PAUSES, reason="writelines of this Python's asyncio pauses nobody")
"""For tests on asyncio's own loop that wait for a full buffer."""
BOTH_LOOPS: Final = pytest.mark.parametrize(
    "loop",
    [
        pytest.param(sliced_loop(asyncio.SelectorEventLoop), marks=NEEDS_PAUSES, id="asyncio"),
        pytest.param(sliced_loop(uvloop.Loop), id="uvloop"),
    ],
)


def run_on(loop: Callable[[], asyncio.AbstractEventLoop], scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a scenario to its end."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario)
