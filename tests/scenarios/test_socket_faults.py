"""Forebay's end of the Unix socket ends, hangs or loses descriptors at each step of an answer: the client has the right
bytes by HTTP, and nothing is left of the channel."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forebay.protocol.channel_frames import ENTRY, FRAME, PIECE, SWITCHED
from forebay_client import Client
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER
from harness.socket_relay import SocketRelay
from harness.socket_rig import SocketRig

RULE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
BODY = random.Random(3).randbytes(700_000)
LARGE = random.Random(4).randbytes(4 << 20)
"""So long that it fills a file of the memory tier."""
SMALL = {f"open/{number}": random.Random(number).randbytes(900 + number) for number in range(30)}
STEPS = sorted(
    {
        *(-len(SWITCHED), -len(SWITCHED) + 1, -1, 0, 1),
        *(FRAME.size - 1, FRAME.size, FRAME.size + 1),
        *(FRAME.size + PIECE.size, FRAME.size + PIECE.size + 1, FRAME.size + ENTRY.size, FRAME.size + ENTRY.size + 1),
    }
)
"""Bytes after which an answer ends: within the switch, before the frame, in it, behind it, behind its first piece or
entry. Its middle and its last byte come besides."""


def read_object(client: Client) -> None:
    assert client.get("b", "open/k") == BODY


def read_large(client: Client) -> None:
    assert client.get("b", "open/large") == LARGE


def read_small(client: Client) -> None:
    assert client.get("b", "open/7") == SMALL["open/7"]


def read_batch(client: Client) -> None:
    keys = [*SMALL, "open/k"]
    assert [item.content() for item in client.get_many("b", keys)] == [*SMALL.values(), BODY]


FORMS: dict[str, tuple[Callable[[Client], None], dict[str, Any]]] = {
    "inline": (read_small, {}),
    "ring": (read_object, {}),
    "memory": (read_large, {}),
    "segment": (read_object, {"memory": "0B", "ssd": "64MiB"}),
    "batch": (read_batch, {}),
}


def rings_are_gone(rig: SocketRig) -> bool:
    """Whether no ring is kept by Forebay, or open in this process, where the client is as well."""
    rig.worker.client_memory.check()
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return rig.parts.storage.rings.in_use == 0 and not any(each.startswith("/memfd:forebay-ring") for each in links)


class Relayed(NamedTuple):
    """A Forebay that answers reads of a form, behind a relay."""

    rig: SocketRig
    relay: SocketRelay
    secret: Secret
    length: int
    """Bytes of the answer."""

    def client(self, **arguments: Any) -> Client:
        return self.rig.library(self.secret, socket=self.relay.path, **arguments)


@asynccontextmanager
async def relayed(directory: Path, form: str) -> AsyncIterator[Relayed]:
    read, settings = FORMS[form]
    secret = READER if form == "ring" else TRAINER
    async with FakeOrigin() as origin, SocketRig(origin, directory, rest=RULE, **settings) as rig:
        for key, content in {**SMALL, "open/k": BODY, "open/large": LARGE}.items():
            origin.store.put("b", key, content)
        with SocketRelay(rig.socket, directory / "relay") as relay:
            with rig.library(secret) as direct:
                if form == "memory":
                    await rig.promote(direct, "b", "open/large")
                await asyncio.to_thread(read, direct)
                await rig.parts.storage.tiers.flush()
            with rig.library(secret, socket=relay.path) as client:
                await asyncio.to_thread(read, client)
                assert client.stats.fallbacks == {}
            await rig.channels_are(0)
            assert rig.forms()[form] > 0
            yield Relayed(rig, relay, secret, relay.passed)
            await rig.channels_are(0)
            await run_loop_until(lambda: rings_are_gone(rig))


@pytest.mark.parametrize("form", FORMS)
async def test_an_answer_that_ends_anywhere_is_read_by_http(tmp_path: Path, form: str) -> None:
    async with relayed(tmp_path, form) as stage:
        for cut in [*(step for step in STEPS if step < stage.length), stage.length // 2, stage.length - 1]:
            stage.relay.cut_after = cut
            with stage.client() as client:
                await asyncio.to_thread(FORMS[form][0], client)
                assert sum(client.stats.fallbacks.values()) == 1, (cut, client.stats)
            await stage.rig.channels_are(0)


@pytest.mark.parametrize("form", FORMS)
async def test_an_answer_that_hangs_anywhere_is_read_by_http(tmp_path: Path, form: str) -> None:
    async with relayed(tmp_path, form) as stage:
        stage.relay.hangs = True
        for cut in (-1, 0, FRAME.size + 1, stage.length - 1):
            stage.relay.cut_after = cut
            with stage.client(timeout=0.2, retries=100) as client:  # on a busy machine HTTP takes longer, too
                await asyncio.to_thread(FORMS[form][0], client)
                assert client.stats.fallbacks.keys() <= {"socket: timeout", "socket: unreachable"}, cut
                assert client.stats.fallbacks


@pytest.mark.parametrize("form", sorted(FORMS.keys() - {"inline"}))
async def test_an_answer_without_its_descriptor_is_read_by_http(tmp_path: Path, form: str) -> None:
    async with relayed(tmp_path, form) as stage:
        stage.relay.loses_descriptors = True
        with stage.client() as client:
            await asyncio.to_thread(FORMS[form][0], client)
            assert client.stats.fallbacks == {"socket: garbage": 1}
