"""The access log's files and pipes: rotation, readers that are stuck, lines of several processes."""

import asyncio
import contextlib
import json
import os
import resource
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forebay.core.errors import SettingsError
from forebay.core.request_record import RequestRecord
from forebay.core.task_registry import TaskRegistry
from forebay.server.telemetry.access_log import FLUSH_SIZE, FORMAT_BATCH, AccessLog
from forebay.server.telemetry.log_file import LogFile, PipeLock, stream_descriptor, write_log_lines
from harness.inspection import run_loop_until


def test_a_log_file_is_appended_to_and_is_not_public(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for line in ("one", "two"):
        log = LogFile(str(path))
        assert write_log_lines(log.fd, [line]) == 0
        log.close()
    assert path.read_text() == "one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) & 0o007 == 0


def test_rotation_keeps_the_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogFile(str(path))
    fd = log.fd
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 # names are all that is counted
    write_log_lines(fd, ["before"])
    path.rename(tmp_path / "log.1")
    write_log_lines(fd, ["still the old one"])
    log.reopen()
    write_log_lines(fd, ["after"])
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 # likewise
    assert not os.get_inheritable(fd)
    log.close()
    assert (tmp_path / "log.1").read_text() == "before\nstill the old one\n"
    assert path.read_text() == "after\n"


def test_a_failed_reopen_keeps_the_old_file(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    log = LogFile(str(directory / "log"))
    directory.rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError):
        log.reopen()
    assert write_log_lines(log.fd, ["line"]) == 0
    log.close()
    assert (tmp_path / "moved" / "log").read_text() == "line\n"


def test_a_directory_as_access_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"server\.access_log: .*Is a directory"):
        LogFile(str(tmp_path))


def test_a_pipe_that_nobody_reads_costs_lines_only() -> None:
    reading, writing = os.pipe()
    try:
        lines = ["x" * 999] * 200  # 200 kB, and a pipe holds 64 KiB
        dropped = write_log_lines(writing, lines, patience=0.01)
        received = os.read(reading, 1 << 20)
        assert 0 < dropped < 200
        assert received == b"".join(line.encode() + b"\n" for line in lines[: 200 - dropped])
        assert write_log_lines(writing, ["again"], patience=0.01) == 0
        assert os.read(reading, 100) == b"again\n"
        os.close(reading)
        reading = -1
        assert write_log_lines(writing, ["nobody"], patience=0.01) == 1
    finally:
        os.close(writing)
        if reading >= 0:
            os.close(reading)


def test_a_full_file_costs_the_lines_that_did_not_fit(tmp_path: Path) -> None:
    lines = ["x" * 99] * 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (tmp_path / "log").open("wb") as file:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
            dropped = write_log_lines(file.fileno(), lines)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    written = (tmp_path / "log").read_bytes().count(b"\n")
    assert 0 < 1000 - dropped <= written < 1000


def test_a_line_longer_than_the_pipe_buffer_is_whole() -> None:
    reading, writing = os.pipe()
    line = "y" * 10_000
    assert write_log_lines(writing, ["short", line, "short"], patience=0.01) == 0
    os.close(writing)
    with os.fdopen(reading) as end:
        assert end.read() == f"short\n{line}\nshort\n"


def record(key: str) -> RequestRecord:
    made = RequestRecord("GET", 1.0, "0" * 16, peer="127.0.0.1")
    made.key = key
    return made


async def test_nothing_is_written_after_the_last_flush() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    filled = 0
    try:
        with contextlib.suppress(BlockingIOError):
            while True:
                filled += os.write(writing, b"." * 4096)
        os.set_blocking(writing, True)
        tasks = TaskRegistry()
        log = AccessLog(writing, lambda: 0.0)
        log.write(record("first"))
        flush = tasks.spawn(log.flush(), "flush")
        await asyncio.sleep(0)  # the thread has it, and the pipe is full
        await tasks.close()
        assert flush.cancelled()
        async with asyncio.TaskGroup() as group:
            last = group.create_task(log.flush())
            await asyncio.sleep(0)
            assert not last.done()
            assert len(os.read(reading, filled)) == filled
        written = os.read(reading, 1 << 16).decode()
        assert '"key":"first"' in written
        assert written.count("\n") == 1
        assert log.dropped == 0
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_busy_server_writes_many_lines_at_once(tmp_path: Path) -> None:
    """Lines that arrive during a write wait: to write them at once cost more than the responses did."""
    long = "x" * (FLUSH_SIZE // (FORMAT_BATCH - 1))
    with (tmp_path / "log").open("wb") as file:
        log = AccessLog(file.fileno(), lambda: 0.0)
        for _ in range(FORMAT_BATCH):
            log.write(record(long))
        assert (log.is_writing, len(log)) == (True, 0)
        log.write(record("second"))
        await run_loop_until(lambda: not log.is_writing)
        assert len(log) == 1
        for _ in range(FORMAT_BATCH - 1):
            log.write(record(long))
        assert (log.is_writing, len(log)) == (True, 0)
        log.write(record("last"))
        await log.flush()
        assert not log.is_writing
    keys = [json.loads(line)["key"] for line in (tmp_path / "log").read_text().splitlines()]
    assert keys == [*[long] * FORMAT_BATCH, "second", *[long] * (FORMAT_BATCH - 1), "last"]


async def test_hits_become_lines_in_order_and_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        log = AccessLog(file.fileno(), lambda: 0.0)
        for n in range(100):
            log.write_hit(1.0 + n // 8 / 1000, f"{n:016}", "::1", f'"key":"{n}"', 0.000004 * n**2)
        assert len(log) == 100
        log.write(record("behind"))
        log.write_hit(2.0, "x", "::1", '"key":"last"', 1.5)
        await run_loop_until(lambda: not (log.is_writing or len(log)))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["key"] for line in lines] == [*(str(n) for n in range(100)), "behind", "last"]
    assert [line["time"] for line in lines[:17]] == [1.0] * 8 + [1.001] * 8 + [1.002]
    assert [lines[n]["ms"] for n in (0, 1, 15, 16, 99)] == [0.0, 0.004, 0.9, 1.024, 39.204]
    assert lines[-1] == {"time": 2.0, "id": "x", "peer": "::1", "key": "last", "ms": 1500.0, "first_byte_ms": 1500.0}


def test_settings_that_name_streams() -> None:
    assert (stream_descriptor("stdout"), stream_descriptor("stderr"), stream_descriptor("/var/log/x")) == (1, 2, None)


def test_processes_that_share_a_pipe_do_not_tear_lines(tmp_path: Path) -> None:
    """Lines longer than the pipe accepts in one piece, and more of them than it holds: without a lock they are torn."""
    reading, writing = os.pipe()
    lines = {name: [name * 9000] * 40 for name in "ab"}
    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write_log_lines, writing, lines[name], PipeLock(tmp_path / "turns")) for name in lines]
        came = b""
        while came.count(b"\n") < 80:
            came += os.read(reading, 5000)
        assert [writer.result() for writer in writers] == [0, 0]
    os.close(reading)
    os.close(writing)
    assert sorted(came.decode().splitlines()) == sorted(lines["a"] + lines["b"])
