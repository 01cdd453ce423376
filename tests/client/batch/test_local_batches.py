"""`get_many` beside Forebay: over a channel, and by HTTP whatever goes wrong on it."""

import asyncio
import gc
import subprocess
import sys
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD
from typing import Any, NamedTuple

import pytest

from forebay.protocol.channel_frames import DECLINED, ENTRIES, ENTRY, FRAME, INSIDE, LAST, RING, SWITCHED, UPGRADE
from forebay_client import AccessDenied, BatchItem, BatchKey, Client, ClientError, ObjectNotFound
from forebay_client.batch.key_groups import GROUP
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin
from harness.forebay_process import PATHS
from harness.forked import FORKS_WITH_THREADS
from harness.inspection import run_loop_until
from harness.reference_sigv4 import Secret
from harness.rig import READER
from harness.socket_rig import SocketRig

RULE = '[[rules]]\npath = "**"\nfreshness = "immutable"\nblock = "64KiB"\n'
KEYS = [f"open/{number:04}" for number in range(20)]
LISTED = [KEYS[number % 19] for number in range(2 * GROUP + 76)]
BODY = {key: key.encode() * 20 for key in KEYS}


class Stage(NamedTuple):
    """A Forebay with a socket, and its origin with KEYS in the bucket `data`."""

    origin: FakeOrigin
    rig: SocketRig
    client: Client


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=RULE) as rig:
        for key in KEYS:
            origin.store.put("data", key, BODY[key])
        yield Stage(origin, rig, rig.library())


async def many(client: Client, keys: list[Any], *, ordered: bool = True) -> list[BatchItem]:
    return await asyncio.to_thread(lambda: list(client.get_many("data", keys, ordered=ordered)))


@pytest.mark.parametrize("ordered", [True, False])
async def test_hundreds_of_keys_take_few_batches_of_one_channel(stage: Stage, ordered: bool) -> None:
    for _ in range(2):
        items = await many(stage.client, LISTED, ordered=ordered)
        assert {item.index: (item.key, bytes(item.content())) for item in items} == {
            index: (key, BODY[key]) for index, key in enumerate(LISTED)
        }
        assert ([item.index for item in items] == list(range(len(LISTED)))) or not ordered
        assert all(item.content().readonly for item in items)
    assert stage.client.stats.requests == {"socket": 6}
    assert stage.client.stats.fallbacks == {}
    await stage.rig.channels_are(1)


async def test_ranges_empty_ranges_and_errors_keep_their_order(stage: Stage) -> None:
    body = BODY[KEYS[0]]
    keys = [
        *(BatchKey(KEYS[0], 5, 5), BatchKey(KEYS[0], 3, 9), "open/gone", BatchKey(KEYS[0], 10_000)),
        *(BatchKey(KEYS[0], 2, 1 << 40), BatchKey("open/gone", 7, 7)),
    ]
    for _ in range(2):
        items = await many(stage.client, keys)
        assert [item.index for item in items] == list(range(6))
        found = [None if item.data is None else bytes(item.data) for item in items]
        assert found == [b"", body[3:9], None, None, body[2:], b""]
        error = items[2].error
        assert isinstance(error, ObjectNotFound)
        assert (error.bucket, error.key, error.code, error.status) == ("data", "open/gone", "NoSuchKey", 404)
        assert error.request_id
        assert error.reason
    assert stage.client.stats.requests == {"socket": 2}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("way", ["socket", "http"])
async def test_keys_that_are_no_names_are_errors_of_their_own(stage: Stage, way: str, ordered: bool) -> None:
    """The server would refuse a batch that has one, and the client took it for a server without batches."""
    client = stage.rig.library(socket=stage.rig.socket if way == "socket" else "")
    odd = ["", "a\0b", "x" * 1025, "é" * 513, "\ud800", BatchKey("open/a.tar", member="")]
    keys = [odd[0], KEYS[0], *odd[1:4], KEYS[1], BatchKey(KEYS[2], 3, 3), *odd[4:]]
    for _ in range(2):
        items = {item.index: item for item in await many(client, keys, ordered=ordered)}
        assert sorted(items) == list(range(len(keys)))
        for at, key in enumerate(keys):
            if key in odd:
                assert isinstance(items[at].error, ClientError), key
        assert [bytes(items[at].content()) for at in (1, 5, 6)] == [BODY[KEYS[0]], BODY[KEYS[1]], b""]
    assert {name for name in client.stats.fallbacks if name.startswith("batch")} == set()


async def test_groups_of_long_keys_are_what_the_channel_carries(stage: Stage) -> None:
    keys = [f"open/{'x' * 900}/{number}" for number in range(200)]
    keys += [f"open/{'é' * 300}/{number}" for number in range(9)]
    for key in keys:
        stage.origin.store.put("data", key, key.encode())
    items = await many(stage.client, keys)
    assert [bytes(item.content()) for item in items] == [key.encode() for key in keys]
    assert set(stage.client.stats.requests) == {"socket"}
    assert stage.client.stats.fallbacks == {}


async def test_denied_keys_are_errors_of_their_own(stage: Stage) -> None:
    stage.origin.store.put("data", "closed/k", b"secret")
    reader = stage.rig.library(READER)
    items = await many(reader, [KEYS[0], "closed/k"])
    assert bytes(items[0].content()) == BODY[KEYS[0]]
    assert isinstance(items[1].error, AccessDenied)
    assert reader.stats.requests == {"socket": 1}


async def test_a_refused_batch_is_told_by_http(stage: Stage) -> None:
    reader = stage.rig.library(Secret("reader", "wrong"))
    items = await many(reader, KEYS[:3])
    assert all(isinstance(item.error, AccessDenied) for item in items)
    assert reader.stats.fallbacks == {"socket: declined": 4, "batch: SignatureDoesNotMatch": 1}


async def test_an_entry_that_fails_for_now_is_read_again(stage: Stage) -> None:
    stage.origin.faults.add(Respond(503, "SlowDown"), key=KEYS[3], times=2)
    client = stage.rig.library(retries=2)
    items = await many(client, KEYS[:6])
    assert [bytes(item.content()) for item in items] == [BODY[key] for key in KEYS[:6]]


async def test_views_keep_their_bytes_when_forebay_is_restarted(stage: Stage) -> None:
    items = await many(stage.client, KEYS)
    port = stage.rig.worker.address[1]
    stage.rig.configuration = stage.rig.configuration.replace(
        'listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{port}"', 1
    )
    await stage.rig.restart()
    again = await many(stage.client, KEYS)
    for found in (items, again):
        assert [bytes(item.content()) for item in found] == [BODY[key] for key in KEYS]
    assert stage.client.stats.requests == {"socket": 2}
    assert stage.client.stats.fallbacks == {}


async def test_an_iterator_that_is_dropped_gives_its_channel_up(stage: Stage) -> None:
    def drop() -> None:
        for _ in range(3):
            items = stage.client.get_many("data", LISTED)
            assert next(items).key == KEYS[0]
            items.close()  # type: ignore[attr-defined]  # a generator, whose type the interface does not show
        assert bytes(stage.client.get("data", KEYS[1])) == BODY[KEYS[1]]

    await asyncio.to_thread(drop)
    gc.collect()
    await stage.rig.channels_are(1)
    await run_loop_until(lambda: stage.rig.worker.listener.requests.in_flight == 0)


async def test_reads_between_items_have_channels_of_their_own(stage: Stage) -> None:
    def read() -> None:
        for item in stage.client.get_many("data", KEYS):
            assert stage.client.get("data", item.key) == item.content() == BODY[item.key]

    await asyncio.to_thread(read)
    assert stage.client.stats.requests == {"socket": 1 + len(KEYS)}


# What a server says that is none, or that breaks off


@asynccontextmanager
async def impostor(path: Path, *frames: bytes, is_read: bool = True) -> AsyncIterator[str]:
    """A socket that answers a batch on each connection with the bytes of its turn, the last ones for all further
    connections, and then ends. `is_read`: whether it has read something of the batch before."""
    answers = list(frames)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readexactly(len(UPGRADE)) == UPGRADE:
            if not is_read:
                writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads, too
            writer.write(SWITCHED)
            if is_read:
                await reader.read(1)
            else:
                await run_loop_until(lambda: unread_bytes(writer) > 0)
            writer.write(answers.pop(0) if len(answers) > 1 else answers[0])
            await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(serve, str(path)):
        yield str(path)


def unread_bytes(writer: asyncio.StreamWriter) -> int:
    """Returns how many bytes the kernel holds for the reader of this connection."""
    count = array("i", [0])
    ioctl(writer.get_extra_info("socket").fileno(), FIONREAD, count)
    return count[0]


def answer(*entries: tuple[int, int, int, int, int], body: bytes = b"x" * 400, flags: int = INSIDE | LAST) -> bytes:
    head = b"".join(ENTRY.pack(*entry) for entry in entries)
    return FRAME.pack(ENTRIES, flags, len(entries), len(head), 0, len(body)) + head + body


RIGHT = answer((0, 200, 0, 100, 0), (1, 200, 0, 100, 128), flags=INSIDE)
WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "ended"),
    "declined": (FRAME.pack(DECLINED, 0, 0, 0, 0, 0), "declined"),
    "beyond the body": (answer((0, 200, 0, 401, 0)), "garbage"),
    "a position beyond it": (answer((0, 200, 0, 1, 1 << 62)), "garbage"),
    "another index": (answer((7, 200, 0, 4, 0)), "garbage"),
    "another order": (answer((1, 200, 0, 4, 0), (0, 200, 0, 4, 0)), "garbage"),
    "twice the same": (answer((0, 200, 0, 4, 0), (0, 200, 0, 4, 0)), "garbage"),
    "more than the range": (answer((0, 200, 0, 4, 0), (1, 200, 0, 4, 0), (2, 200, 0, 99, 0)), "garbage"),
    "too few": (answer((0, 200, 0, 4, 0)), "garbage"),
    "no end": (RIGHT, "ended"),
    "a frame of nothing": (answer(flags=INSIDE), "garbage"),
    "half a body": (answer((0, 200, 0, 4, 0))[:-9], "broken"),
    "declined in the middle": (RIGHT + FRAME.pack(DECLINED, 0, 0, 0, 0, 0), "garbage"),
    "another kind": (FRAME.pack(RING, 0, 0, 0, 0, 0), "garbage"),
    "no ring": (FRAME.pack(ENTRIES, LAST, 0, 0, 0, 100), "garbage"),
    "entries without room": (FRAME.pack(ENTRIES, INSIDE, 9, 24, 0, 0) + bytes(24), "garbage"),
    "an endless head": (FRAME.pack(ENTRIES, INSIDE, 0, 1 << 31, 0, 0), "garbage"),
    "an endless body": (FRAME.pack(ENTRIES, INSIDE | LAST, 0, 0, 0, (1 << 64) - 1), "garbage"),
    "a body beyond all memory": (FRAME.pack(ENTRIES, INSIDE | LAST, 0, 0, 0, 1 << 60), "garbage"),
    "an unknown kind": (b"\xff" * FRAME.size, "garbage"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_no_answer_is_read_by_http(stage: Stage, tmp_path: Path, what: str) -> None:
    frames, reason = WRONG[what]
    async with impostor(tmp_path / "impostor", frames) as path:
        client = stage.rig.library(socket=path)
        items = await many(client, [KEYS[0], KEYS[1], BatchKey(KEYS[2], 5, 15)])
    received = {"another order": 0, "more than the range": 2, "too few": 1, "no end": 2, "twice the same": 1}
    received["declined in the middle"] = 2
    rest = [BODY[KEYS[0]], BODY[KEYS[1]], BODY[KEYS[2]][5:15]][received.get(what, 0) :]
    assert [item.index for item in items] == [0, 1, 2]
    assert [bytes(item.content()) for item in items[received.get(what, 0) :]] == rest
    assert client.stats.fallbacks[f"socket: {reason}"] >= 1, client.stats
    assert set(client.stats.requests) == {"http"}


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_later_channel_does_not_answer_for_an_earlier_one(stage: Stage, tmp_path: Path, is_read: bool) -> None:
    """Two groups are under way when Forebay ends; the third finds it restarted. The second has no answer. The kernel
    resets a channel with input that Forebay has not read."""
    third = b"".join(BODY[key] for key in LISTED[2 * GROUP :])
    size = len(third) // len(LISTED[2 * GROUP :])
    entries = [(index, 200, 0, size, index * size) for index in range(len(LISTED[2 * GROUP :]))]
    async with impostor(tmp_path / "impostor", b"", answer(*entries, body=third), is_read=is_read) as path:
        client = stage.rig.library(socket=path)
        items = await many(client, LISTED)
    assert [bytes(item.content()) for item in items] == [BODY[key] for key in LISTED]
    assert client.stats.requests == {"http": 2, "socket": 1}
    assert client.stats.fallbacks == {"socket: ended": 2}


# Processes


CHILD = """
import os, sys
from forebay_client import Client
client = Client({endpoint!r}, access_key="reader", secret_key="reader-secret", socket={socket!r}, retries=0)
keys, size = {keys!r}, len({keys!r})
items = client.get_many("data", keys)
views = [next(items).content() for _ in range(4)]  # and the rest is still to come
child = os.fork()
if child:
    rest = [item.content() for item in items]
    assert [bytes(view) for view in views + rest] == [key.encode() * 20 for key in keys]
    del views, rest  # slots of the parent, which the child still looks at
    for _ in range(3):
        assert [bytes(item.content()) for item in client.get_many("data", keys)] == [key.encode() * 20 for key in keys]
    assert client.stats.fallbacks == {{}}, client.stats
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for _ in range(3):
    assert [bytes(item.content()) for item in client.get_many("data", keys)] == [key.encode() * 20 for key in keys]
assert client.stats.requests == {{"socket": 3}}, client.stats
assert [bytes(view) for view in views] == [key.encode() * 20 for key in keys[:4]]
rest = [bytes(item.content()) for item in items]  # in the child: by other ways
assert rest == [key.encode() * 20 for key in keys[4:]]
os._exit(0)
"""
HOARDER = """
import sys, time
from forebay_client import Client
client = Client({endpoint!r}, access_key="reader", secret_key="reader-secret", socket={socket!r}, retries=0)
views = [item.content() for _ in range(20) for item in client.get_many("data", {keys!r})]
assert client.stats.requests == {{"socket": 20}}, client.stats
items = client.get_many("data", {keys!r})
next(items)
print("held", flush=True)
time.sleep(600)
"""


async def run(program: str, stage: Stage) -> tuple[asyncio.subprocess.Process, Callable[[], Any]]:
    code = program.format(endpoint=stage.rig.endpoint, socket=stage.rig.socket, keys=KEYS)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        FORKS_WITH_THREADS,
        "-c",
        code,
        env={"PYTHONPATH": PATHS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    return process, process.communicate


async def test_batches_survive_a_fork_in_their_middle(stage: Stage) -> None:
    process, communicate = await run(CHILD, stage)
    _, errors = await communicate()
    assert (process.returncode, errors) == (0, b"")
    await stage.rig.channels_are(0)
    stage.rig.worker.client_memory.check()
    assert stage.rig.parts.storage.rings.in_use == 0


async def test_nothing_stays_of_a_client_that_is_killed_in_a_batch(stage: Stage) -> None:
    process, _ = await run(HOARDER, stage)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    assert stage.rig.parts.storage.rings.in_use > 0
    process.kill()
    await process.wait()
    await stage.rig.channels_are(0)
    stage.rig.worker.client_memory.check()
    assert stage.rig.parts.storage.rings.in_use == 0
    assert stage.rig.worker.listener.requests.in_flight == 0
