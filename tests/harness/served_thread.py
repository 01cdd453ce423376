"""A Forebay and its origin in a thread of their own, for tests that are synchronous: of libraries that block.

with served_thread(directory) as served:
    fsspec.filesystem("forebay", endpoint=served.endpoint, ...)
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.fake_origin import FakeOrigin
from harness.rig import Rig


@dataclass(frozen=True, slots=True)
class Served:
    """What runs. `origin.store` and the log may be looked at between requests."""

    origin: FakeOrigin
    rig: Rig
    endpoint: str


@contextmanager
def served_thread(directory: Path, **settings: Any) -> Iterator[Served]:
    """Runs until the block ends; then the rig checks that nothing is left. `settings`: see Rig."""
    loop, started, ended = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    served: list[Served] = []

    async def serve() -> None:
        async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, directory, **settings) as rig:
            served.append(Served(origin, rig, rig.endpoint))
            started.set()
            await ended.wait()

    failures: list[BaseException] = []

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(serve())
        except BaseException as failure:  # raised in the test's thread
            failures.append(failure)
        finally:
            started.set()
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    try:
        if served:
            yield served[0]
    finally:
        if not failures:
            loop.call_soon_threadsafe(ended.set)
        thread.join()
        if failures:
            raise failures[0]
