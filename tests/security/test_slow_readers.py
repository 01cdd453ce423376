"""Slow readers of cold objects: they use up no buffers that others need, and get their bodies whole.

Each reader has a socket that buffers little, so that Forebay waits for it after some hundred kilobytes. Buffers are for
a few blocks, the readers and their objects many times that. What decides is counted in bytes and blocks, not in time.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from forebay.core.byte_ranges import Span
from harness.certificates import TestAuthority, install, tls_settings
from harness.clients import path_of
from harness.fake.content import Synthetic
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.raw_connection import RawConnection
from harness.rig import Rig

MIB: Final = 1 << 20
SIZE: Final = 3 * MIB + 17
READERS: Final = 10
RECEIVE_BUFFER: Final = 4096
PATIENT: Final = '[limits]\nbody_timeout = "1h"\n'


@dataclass(frozen=True)
class Way:
    """How readers read."""

    settings: dict[str, str]
    version: bytes = b"1.1"
    first: int = 0
    """Of the range that is read; 0: the whole object."""
    tls: bool = False


WAYS: Final = {
    "from memory": Way({}),
    "from the SSD": Way({"memory": "0B", "ssd": "256MiB"}),
    "from the origin again": Way({"memory": "0B"}),
    "a range": Way({}, first=MIB // 2 + 3),
    "by aiohttp": Way({}, version=b"1.0"),
    "by TLS": Way({}, tls=True),
    "by TLS from the SSD": Way({"memory": "0B", "ssd": "256MiB"}, tls=True),
}


@asynccontextmanager
async def slow_readers(
    rig: Rig, origin: FakeOrigin, way: Way, tls: ssl.SSLContext | None
) -> AsyncIterator[list[RawConnection]]:
    """READERS connections that have read the head of a response each, of a cold object of their own, and no more."""
    client, connections = rig.client(), []
    port = rig.worker.tls_address[1] if tls else rig.worker.address[1]
    try:
        for number in range(READERS):
            origin.store.put_synthetic("bucket", f"slow-{number}", SIZE, number)
            connections.append(await RawConnection.open("127.0.0.1", port, RECEIVE_BUFFER, tls))
            wanted = [("Range", f"bytes={way.first}-")] if way.first else []
            wire = client.sign("GET", path_of("bucket", f"slow-{number}"), wanted).wire
            await connections[-1].send(wire.replace(b"HTTP/1.1", b"HTTP/" + way.version))
        for connection in connections:
            assert (await connection.read_head()).status == (206 if way.first else 200)
        yield connections
    finally:
        for connection in connections:
            connection.reset()


@pytest.mark.parametrize("way", WAYS)
async def test_slow_readers_leave_buffers_to_others(tmp_path: Path, way: str) -> None:
    chosen, timers, tls = WAYS[way], ManualTimers(), None
    settings: dict[str, Any] = {"memory": "128MiB", "buffers": "8MiB", "rest": PATIENT, **chosen.settings}
    if chosen.tls:
        authority = TestAuthority(tmp_path)
        install(tmp_path, authority.issue("forebay"))
        settings["server"], tls = tls_settings(tmp_path), ssl.create_default_context(cafile=str(authority.file))
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers, **settings) as rig:
        budget = rig.parts.storage.budget
        with timers.flowing(0.002):  # a reader of what no tier keeps is left its block for a while
            async with slow_readers(rig, origin, chosen, tls) as connections:
                other = origin.store.put_synthetic("bucket", "other", 2 * SIZE)
                answer = await rig.client().request("GET", path_of("bucket", "other"))
                assert (answer.status, answer.body == other.expected(Span(0, 2 * SIZE))) == (200, True)
                assert budget.in_use <= budget.capacity
                bodies = await asyncio.gather(*(connection.read_rest() for connection in connections))
                for number, (body, is_short) in enumerate(bodies):
                    expected = Synthetic(SIZE, number).expected(Span(chosen.first, SIZE))
                    assert (is_short, len(body), body == expected) == (False, len(expected), True)
        await run_loop_until(lambda: budget.in_use == 0)
