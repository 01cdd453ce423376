"""Unix sockets: their directory, their names, and the processes at their ends."""

import asyncio
import os
import signal
import socket
import stat
import struct
import tempfile
from pathlib import Path
from typing import cast

import pytest

from forebay.core.errors import PeerUnavailable, WorkerStartError
from forebay.peers.unix_socket import (
    ProcessHandle,
    connect,
    longest_socket_path,
    make_socket_directory,
    new_instance_id,
    socket_path,
    temporary_socket_path,
    verify_same_user,
)


class Connection:
    """A connection whose other end is of another user."""

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return struct.pack("3i", os.getpid(), os.geteuid() + 1, os.getegid())[:size]


def test_another_user_is_refused() -> None:
    with pytest.raises(PeerUnavailable):
        verify_same_user(cast("socket.socket", Connection()))
    ends = socket.socketpair()
    with ends[0], ends[1]:
        assert verify_same_user(ends[0]) == os.getpid()


def test_the_directory_is_private() -> None:
    with tempfile.TemporaryDirectory() as parent:  # shorter than tmp_path
        directory = make_socket_directory(2, Path(parent))
        assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
        directory.remove()
        assert list(Path(parent).iterdir()) == []


def test_a_path_too_long_for_sockets_leaves_no_directory(tmp_path: Path) -> None:
    parent = tmp_path / ("d" * 100)
    parent.mkdir()
    with pytest.raises(WorkerStartError, match="too long for sockets"):
        make_socket_directory(2, parent)
    assert list(parent.iterdir()) == []


def test_a_temporary_path_is_no_longer_than_the_longest(tmp_path: Path) -> None:
    temporary = temporary_socket_path(socket_path(tmp_path, 63), new_instance_id())
    assert temporary != socket_path(tmp_path, 63)
    assert len(str(temporary)) == len(str(longest_socket_path(tmp_path, 64)))


async def test_a_connection_knows_the_process_at_the_other_end(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        channel = await connect(tmp_path / "socket")
        assert channel.pid == os.getpid()
        channel.abort()
        await asyncio.sleep(0)


async def test_a_handle_kills_its_process_and_nothing_after_it() -> None:
    process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE)
    handle = ProcessHandle(process.pid)
    handle.kill()
    assert await process.wait() == -signal.SIGKILL
    handle.kill()
    handle.release()
    handle.kill()
