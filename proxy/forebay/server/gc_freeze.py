"""Python's collector of cycles, told not to look again through what stays.

A cache is millions of small objects that stay. A full collection looks through all of them while the loop stands still:
a quarter of a second with 40,000 objects cached, seconds with a million. So what has outlived a full collection is set
aside (gc.freeze), and full collections come early: each looks through the few thousand objects that have come since the
last one, some milliseconds.

What is set aside is freed as everything is, when nothing refers to it any more; only a cycle among it would stay for
ever. So nothing that lives for long may end as a cycle, first of all a connection. That is held by a test: requests of
all kinds leave none. It holds under uvloop; asyncio's own transports are cycles, so nothing is set aside there.

https://docs.python.org/3/library/gc.html#gc.freeze
"""

import asyncio
import gc
from collections.abc import Mapping
from typing import Final

_FULL_GENERATION: Final = 2
"""The generation of a full collection."""
_MIDDLE_COLLECTIONS: Final = 1
"""Collections of the middle generation between two full ones; Python's default is 10."""


def freeze_long_lived(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, in the process that this loop serves. Everything that is there now counts as staying."""
    if any(kind.__module__.startswith("uvloop") for kind in type(loop).__mro__):  # ours is made of it (looping)
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _MIDDLE_COLLECTIONS)
        gc.freeze()  # with the cycles that importing has left, some 2,000 objects: to find them would take 30 ms
        if _collected not in gc.callbacks:
            gc.callbacks.append(_collected)
    gc.enable()  # it rested while the process started (forebay.server.startup); before freezing it would look at all


def _collected(phase: str, told: Mapping[str, int]) -> None:
    if phase == "stop" and told["generation"] == _FULL_GENERATION:
        gc.freeze()
