"""A whole Forebay with an object that others read while one client is a burden to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from harness.fake_origin import FakeOrigin
from harness.manual_timers import ManualTimers
from harness.rig import Rig

CONTENT: Final = b"for the others " * 50


@asynccontextmanager
async def serving(
    directory: Path, limits: str = "", timers: ManualTimers | None = None, /, **kind: str
) -> AsyncIterator[tuple[Rig, FakeOrigin]]:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, directory, timers, rest=limits, **kind) as rig,
    ):
        origin.store.put("bucket", "others", CONTENT)
        yield rig, origin
