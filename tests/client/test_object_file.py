"""Objects as files: what io promises, requests that follow a reader, and one version."""

import asyncio
import ctypes
import io
import os
import tarfile
import threading
import zipfile
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from forebay_client import Client, ConditionNotMet, ObjectNotFound
from forebay_client.object_file import FIRST_WINDOW
from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.forked import in_a_fork

CONTENT = os.urandom(1 << 20)


@pytest.fixture
async def origin() -> AsyncIterator[FakeOrigin]:
    async with FakeOrigin() as origin:
        origin.store.put("b", "k", CONTENT)
        origin.store.put("b", "empty", b"")
        yield origin


def client_of(origin: FakeOrigin) -> Client:
    secret = origin.secret
    return Client(origin.endpoint, access_key=secret.access, secret_key=secret.secret, socket="", retries=0)


async def dialogue(origin: FakeOrigin, run: Callable[[Client], None]) -> None:
    with client_of(origin) as client:
        await asyncio.to_thread(run, client)


async def test_it_is_a_file(origin: FakeOrigin) -> None:
    def run(client: Client) -> None:
        with client.open("b", "k") as file:
            assert (file.readable(), file.seekable(), file.writable(), file.size) == (True, True, False, len(CONTENT))
            assert (file.name, file.mode) == ("s3://b/k", "rb")
            assert file.read(10) == CONTENT[:10]
            assert file.tell() == 10
            assert file.seek(-10, io.SEEK_END) == len(CONTENT) - 10
            assert file.read() == CONTENT[-10:]
            assert file.read(5) == file.read1() == b""
            assert file.seek(500_000) == 500_000
            assert file.seek(5, io.SEEK_CUR) == 500_005
            buffer = bytearray(300_000)
            assert (file.readinto(buffer), bytes(buffer)) == (300_000, CONTENT[500_005:800_005])
            assert 0 < len(file.read1(1000)) <= 1000
            assert file.seek(2 * len(CONTENT)) == 2 * len(CONTENT)
            assert file.read(1) == b""
            with pytest.raises(ValueError, match="negative"):
                file.seek(-1)
            with pytest.raises(io.UnsupportedOperation):
                file.write(b"x")
            file.seek(7)
            no_int: Any = 1.5
            for call in (file.seek, file.read, file.read1):
                with pytest.raises(TypeError, match="is an int, not float"):
                    call(no_int)
            with pytest.raises(ValueError, match="read-only"):
                file.readinto(b"bytes")
            assert file.readinto((ctypes.c_int * 3 * 0)()) == 0
            assert file.tell() == 7
        for closed in (file.read, file.read1, file.peek):
            with pytest.raises(ValueError, match="closed"):
                closed(1)

    await dialogue(origin, run)


@pytest.mark.parametrize("read_ahead", [0, 1, 100_000, 8 << 20])
async def test_reads_of_all_sizes_and_orders_are_right(origin: FakeOrigin, read_ahead: int) -> None:
    def run(client: Client) -> None:
        with client.open("b", "k", read_ahead=read_ahead) as file:
            assert file.read() == CONTENT
            file.seek(0)
            assert b"".join(iter(lambda: file.read(150_001), b"")) == CONTENT
            for start, size in ((900_000, 200_000), (0, 1), (131_070, 4), (400_000, 300_000), (700_000, 1)):
                file.seek(start)
                assert file.read(size) == CONTENT[start : start + size]

    await dialogue(origin, run)


async def test_an_empty_object_is_an_empty_file(origin: FakeOrigin) -> None:
    def run(client: Client) -> None:
        with client.open("b", "empty") as file:
            assert (file.size, file.read(), file.read1(), file.read(7)) == (0, b"", b"", b"")
        with pytest.raises(ObjectNotFound):
            client.open("b", "none")

    await dialogue(origin, run)


async def test_small_reads_in_order_take_few_requests(origin: FakeOrigin) -> None:
    def run(client: Client) -> None:
        with client.open("b", "k") as file:
            while file.read(1000):
                pass

    await dialogue(origin, run)
    # 128 KiB at first, then 256, 512 and the rest
    assert origin.log.requests[0].range == f"bytes=0-{FIRST_WINDOW - 1}"
    assert origin.log.count("GET") == 4


async def test_a_reader_that_jumps_reads_little(origin: FakeOrigin) -> None:
    def run(client: Client) -> None:
        with client.open("b", "k") as file:
            for start in (10_000, 500_000, 900_000):
                file.seek(start)
                file.read(100)

    await dialogue(origin, run)
    assert origin.log.count("GET") == 3  # 10,000 is in the first window


async def test_a_large_read_is_one_request_into_the_buffer(origin: FakeOrigin) -> None:
    def run(client: Client) -> None:
        with client.open("b", "k", read_ahead=200_000) as file:
            file.seek(FIRST_WINDOW)
            assert file.read(500_000) == CONTENT[FIRST_WINDOW : FIRST_WINDOW + 500_000]

    await dialogue(origin, run)
    assert origin.log.count("GET") == 2


async def test_an_overwritten_object_is_no_mixture(origin: FakeOrigin) -> None:
    def run(client: Client) -> None:
        with client.open("b", "k") as file:
            assert file.read(100) == CONTENT[:100]
            client.put("b", "k", bytes(len(CONTENT)))
            with pytest.raises(ConditionNotMet):
                file.read()

    await dialogue(origin, run)


async def test_ranges_that_are_ignored_are_cut_out(origin: FakeOrigin) -> None:
    origin.faults.add(actions.IgnoreRange())

    def run(client: Client) -> None:
        with client.open("b", "k", read_ahead=1000) as file:
            assert file.read() == CONTENT
            file.seek(1234)
            assert file.read(77) == CONTENT[1234:1311]
        assert bytes(client.get_range("b", "k", 5, 9)) == CONTENT[5:9]
        buffer = bytearray(7)
        assert (client.get_into("b", "k", buffer, 3), bytes(buffer)) == (7, CONTENT[3:10])

    await dialogue(origin, run)


async def test_archives_are_read_from_it(origin: FakeOrigin) -> None:
    packed, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo("member")
        info.size = 300_000
        archive.addfile(info, io.BytesIO(CONTENT[:300_000]))
    with zipfile.ZipFile(zipped, "w") as bundle:
        bundle.writestr("member", CONTENT[:300_000])
    origin.store.put("b", "tar", packed.getvalue())
    origin.store.put("b", "zip", zipped.getvalue())

    def run(client: Client) -> None:
        with client.open("b", "tar") as file, tarfile.open(fileobj=file) as archive:
            member = archive.extractfile("member")
            assert member is not None
            assert member.read() == CONTENT[:300_000]
        with client.open("b", "zip") as file, zipfile.ZipFile(file) as bundle:
            assert bundle.read("member") == CONTENT[:300_000]
        origin.store.put("b", "text", "ä\nö\n".encode())
        with io.TextIOWrapper(client.open("b", "text"), encoding="utf-8") as text:
            assert list(text) == ["ä\n", "ö\n"]

    await dialogue(origin, run)


@pytest.mark.parametrize(("read_ahead", "requests"), [(0, 20), (8 << 20, 4)])
async def test_lines_cost_no_request_a_byte(origin: FakeOrigin, read_ahead: int, requests: int) -> None:
    lines = [b"%d\n" % number * 50 for number in range(200)]
    origin.store.put("b", "lines", b"".join(lines))

    def run(client: Client) -> None:
        with client.open("b", "lines", read_ahead=read_ahead) as file:
            assert file.peek(3).startswith(b"0")
            assert file.tell() == 0
            assert b"".join(file) == b"".join(lines)
            assert file.peek() == b""
            file.seek(-2, io.SEEK_END)
            assert (file.readline(), file.readline()) == (lines[-1][-2:], b"")
        assert client.stats.requests["http"] <= requests
        with pytest.raises(ValueError, match="closed"):
            file.peek()

    await dialogue(origin, run)


async def test_it_goes_on_in_a_child_after_a_fork(origin: FakeOrigin) -> None:
    def run(client: Client) -> None:
        with client.open("b", "k", read_ahead=300_000) as file:
            file.read(400_000)  # something is on its way
            assert in_a_fork(file.read) == CONTENT[400_000:]
            assert file.read() == CONTENT[400_000:]

    await dialogue(origin, run)
    assert threading.active_count() < 100
