"""Unix sockets between the workers of a node: their paths, the check of the peer's user, and the end of hung processes.

    $TMPDIR/forebay-node-XXXX/    mode 0700, an unguessable name
        worker-0, worker-1, ...   a new process binds worker-N.<instance id> and renames it

Other users can't read the directory; still, each end asks the kernel for the user of the other one (SO_PEERCRED,
unix(7)), and disconnects any but its own.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import struct
from pathlib import Path
from typing import Final

from forebay.core.errors import PeerNotListening, PeerUnavailable, WorkerStartError
from forebay.peers.byte_stream import ByteStream
from forebay.peers.frames import Channel
from forebay.storage.private_directory import PrivateDirectory, temporary_directory

PREFIX: Final = "forebay-node-"
_MAX_PATH: Final = 107
"""Bytes of a socket's path (unix(7): sun_path)."""
_CREDENTIALS: Final = struct.Struct("3i")


def make_socket_directory(workers: int, parent: Path | None = None) -> PrivateDirectory:
    """Returns a new directory for the sockets of a node. Raises WorkerStartError."""
    try:
        directory = PrivateDirectory.create(parent or temporary_directory(), PREFIX)
    except OSError as failure:
        raise WorkerStartError(f"the workers' socket directory can't be created (TMPDIR): {failure}") from failure
    excess = len(os.fsencode(longest_socket_path(directory.path, workers))) - _MAX_PATH
    if excess > 0:
        directory.remove()
        raise WorkerStartError(
            f"{directory.path} is too long for sockets by {excess} bytes: choose a shorter one (TMPDIR)"
        )
    return directory


def socket_path(directory: Path, worker: int) -> Path:
    """Returns the path of a worker's socket."""
    return directory / f"worker-{worker}"


def longest_socket_path(directory: Path, workers: int) -> Path:
    """Returns the longest path that a socket of the node has: while it replaces the one before."""
    return temporary_socket_path(socket_path(directory, workers - 1), new_instance_id())


def new_instance_id() -> str:
    """Returns an id that no process has had."""
    return secrets.token_hex(8)


def temporary_socket_path(path: Path, instance_id: str) -> Path:
    """Returns where a process binds its socket, before it renames it to `path`."""
    return path.with_name(f"{path.name}.{instance_id}")


async def connect(path: Path) -> Channel:
    """Returns a connection to the worker whose socket is at `path`. Raises PeerNotListening, PeerUnavailable."""
    loop = asyncio.get_running_loop()
    connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        try:
            await loop.sock_connect(connecting, str(path))
        except ConnectionRefusedError as error:
            raise PeerNotListening(f"nobody listens at {path.name}") from error
        pid = verify_same_user(connecting)
        _, stream = await loop.create_unix_connection(ByteStream, sock=connecting)
    except OSError as error:
        connecting.close()
        raise PeerUnavailable(f"{path.name} can't be reached: {error}") from error
    except BaseException:
        connecting.close()
        raise
    return Channel(stream, pid)


def verify_same_user(connection: socket.socket) -> int:
    """Returns the process id at the other end. Raises PeerUnavailable if it is another user's."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(raw)
    if user != os.geteuid():
        raise PeerUnavailable(f"user {user} may not connect")
    return int(pid)


class ProcessHandle:
    """A process, even after its id has been reused (pidfd_open(2))."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = -1
        with contextlib.suppress(OSError):  # it has ended, or the kernel has no pidfd
            self._fd = os.pidfd_open(pid)

    def kill(self) -> None:
        """Ends the process at once (SIGKILL)."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def release(self) -> None:
        """Closes the handle."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
