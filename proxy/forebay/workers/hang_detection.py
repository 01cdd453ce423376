"""When a worker is to be given up although it runs: it hangs, or the others can't reach it.

It hangs when it has left SILENCES pings in a row unanswered for PING_PATIENCE each. That is long enough for one that is
out of breath; and in a row, so that a pause of the whole machine, after which a ping of each worker seems late, is not
taken for a silence of all of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from forebay.core.errors import ForebayError

PING_INTERVAL: Final = 2.0
"""Seconds between two pings."""
PING_TIMEOUT: Final = 2.0
"""Seconds that a worker may take to answer one."""
MAX_MISSED_PINGS: Final = 5


async def wait_until_hung(
    ping: Callable[[], Awaitable[object]],
    is_reachable: Callable[[], bool],
    interval: float = PING_INTERVAL,
    ping_timeout: float = PING_TIMEOUT,
) -> str:
    """Why it is to be given up, as soon as it is. `reachable`: whether it can be asked at all."""
    missed = 0
    while missed < MAX_MISSED_PINGS:
        if not missed:
            await asyncio.sleep(interval)
        if not is_reachable():
            return "its socket was removed, no other can reach it"
        try:
            async with asyncio.timeout(ping_timeout):
                await ping()
        except TimeoutError:
            missed += 1
        except ForebayError:  # it has ended, most likely, and is not to be given up but buried
            missed = 0
        else:
            missed = 0
    return f"it has not answered {MAX_MISSED_PINGS} times in a row"
