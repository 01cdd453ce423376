"""Which event loop we run on."""

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's, or asyncio's own where there is no uvloop: slower, and otherwise the same."""
    try:
        import uvloop  # noqa: PLC0415 # it may not be there
    except ModuleNotFoundError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
