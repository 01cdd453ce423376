"""Request smuggling: no request is answered or forwarded that only a lenient parser would see.

Each case of security.body_framings and security.malformed_heads is sent over a socket: through both lanes, in one piece
and in two, on a fresh connection and after a hit; and again in a process in which aiohttp has no C parser. Two validly
signed requests follow each case, one for a hit and one that would have to be fetched.
"""

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Final

import aiohttp.http_parser
import pytest

from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.manual_timers import ManualTimers
from harness.rig import Rig
from security.body_framings import absorbed, refused
from security.smuggling_cases import SmugglingCase, signed_requests

LEAST: Final = 200
AT_ONCE: Final = 500
SECRET: Final = b"smuggled-content"
COLD: Final = "/bucket/open/cold"
WITHOUT_EXTENSIONS: Final = "AIOHTTP_NO_EXTENSIONS"
LIMITS: Final = """
[limits]
header_timeout = "1s"
idle_timeout = "1s"
body_timeout = "1s"
"""
_STATUS: Final = re.compile(rb"HTTP/\d\.\d (\d{3})[^\r\n]*\r\n")


class Progress:
    """Counts what is sent and received on all connections: where it stays the same, only time can end them."""

    def __init__(self) -> None:
        self.count = 0


async def _heard(rig: Rig, pieces: list[bytes], prime: bytes | None, progress: Progress) -> tuple[bytes, bool]:
    """All that comes back until the connection ends, after `prime` was answered; and whether it ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.worker.address[1])
    try:
        if prime is not None:
            writer.write(prime)
            head = await reader.readuntil(b"\r\n\r\n")
            found = re.search(rb"Content-Length: (\d+)", head)
            assert found is not None
            await reader.readexactly(int(found[1]))
        heard = bytearray()
        try:
            for piece in pieces:
                writer.write(piece)
                progress.count += 1
                await writer.drain()
                if piece is not pieces[-1]:
                    for _ in range(10):
                        await asyncio.sleep(0)
            async with asyncio.timeout(30):
                while piece := await reader.read(1 << 16):
                    heard += piece
                    progress.count += 1
        except ConnectionError:
            pass
        except TimeoutError:
            return bytes(heard), False
        return bytes(heard), True
    finally:
        progress.count += 1
        writer.close()


def _finals(heard: bytes) -> list[int]:
    return [status for status in map(int, _STATUS.findall(heard)) if status >= 200]


async def _check(
    rig: Rig,
    client: RawClient,
    case: SmugglingCase,
    progress: Progress,
    *,
    in_two: bool,
    primed: bool,
    only_refusal: bool,
) -> str | None:
    """What is wrong with how this case was taken, if anything."""
    hit, cold = client.sign("GET", "/bucket/open/hit").wire, client.sign("GET", COLD).wire
    wire = case.wire(hit + cold)
    half = len(wire) // 3
    pieces = [wire[:half], wire[half:]] if in_two else [wire]
    heard, ended = await _heard(rig, pieces, hit if primed else None, progress)
    finals = _finals(heard)
    if len(finals) > 1:
        return f"{len(finals)} answers: {finals}"
    if not ended:
        return "the connection was not ended"
    if SECRET in heard and only_refusal:
        return "the object was answered"
    if only_refusal and not all(400 <= status < 500 or status in {501, 505} for status in finals):
        return f"answered {finals}"
    if only_refusal and not finals and heard:
        return f"something else was sent: {heard[:100]!r}"
    return None


@pytest.mark.parametrize("lane", ["fast", "full"])
async def test_no_second_request_is_seen(tmp_path: Path, lane: str) -> None:
    timers, progress = ManualTimers(), Progress()
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers, rest=LIMITS) as rig:
        for key in ("open/hit", "open/cold"):
            origin.store.put("bucket", key, SECRET)
        client = rig.client()
        for _ in range(2):
            assert (await client.request("GET", "/bucket/open/hit")).body == SECRET
        if lane == "full":
            rig.worker.listener.reads.fast_lane = None
        base = signed_requests(client)
        cases = [(case, True) for case in refused(base)] + [(case, False) for case in absorbed(base)]
        free = asyncio.Semaphore(AT_ONCE)
        wrong: list[str] = []

        async def run(case: SmugglingCase, way: int, *, only_refusal: bool) -> None:
            async with free:
                found = await _check(
                    rig, client, case, progress, in_two=way in {1, 3}, primed=way >= 2, only_refusal=only_refusal
                )
            if found is not None:
                wrong.append(f"{case.name} ({way}): {found}")

        with timers.flowing(1.0, lambda: progress.count):
            async with asyncio.TaskGroup() as group:
                for number, (case, only_refusal) in enumerate(cases):
                    # Every way a case can come, by turns, and each case in two of them.
                    for way in (number % 4, (number + 1 + number // 4 % 3) % 4):
                        group.create_task(run(case, way, only_refusal=only_refusal))
        assert not wrong, "\n".join(wrong)
        assert origin.log.count(key="open/cold") == 0
        assert len(cases) >= LEAST


@pytest.mark.skipif(WITHOUT_EXTENSIONS in os.environ, reason="this is the child")
async def test_nor_by_the_parser_without_extensions() -> None:
    environment = {**os.environ, WITHOUT_EXTENSIONS: "1"}
    here = str(Path(__file__))
    command = (sys.executable, "-m", "pytest", here, "-k", "second_request or which_parser", "-x", "--timeout", "110")
    child = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    told, _ = await child.communicate()
    assert child.returncode == 0, told.decode()


def test_which_parser_it_is() -> None:
    python = aiohttp.http_parser.HttpRequestParser is aiohttp.http_parser.HttpRequestParserPy
    assert python == (WITHOUT_EXTENSIONS in os.environ)
