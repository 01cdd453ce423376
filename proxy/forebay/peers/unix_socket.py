"""Connections to another worker's socket: who may be at the other end, and how it is ended for good.

The socket lies in a directory that nobody else can look into; still, either end asks the kernel who is at the other
(SO_PEERCRED, unix(7)) and hangs up on another user.
"""

import asyncio
import contextlib
import os
import signal
import socket
import struct
from pathlib import Path
from typing import Final

from forebay.peers.frames import Channel, PeerUnavailable

READ_BUFFER: Final = 1 << 20
"""Bytes that a connection takes in before they are asked for."""
_CREDENTIALS: Final = struct.Struct("3i")


class NotListening(PeerUnavailable):
    """No process listens there: it has ended, or has not come to it yet. That there is no file is no such proof:
    somebody may have removed it under one that lives (a cleaner of old files), so the supervisor puts one there
    beforehand."""


async def connect(path: Path) -> Channel:
    """Connect to the worker whose socket is at `path`. Raises NotListening, PeerUnavailable."""
    loop = asyncio.get_running_loop()
    connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        try:
            await loop.sock_connect(connecting, str(path))
        except ConnectionRefusedError as error:
            raise NotListening(f"nobody listens at {path.name}") from error
        process = verify_same_user(connecting)
        reader, writer = await asyncio.open_unix_connection(sock=connecting, limit=READ_BUFFER)
    except OSError as error:
        connecting.close()
        raise PeerUnavailable(f"{path.name} can't be reached: {error}") from error
    except BaseException:
        connecting.close()
        raise
    return Channel(reader, writer, process)


def verify_same_user(connection: socket.socket) -> int:
    """The process at the other end. Raises PeerUnavailable if it is not this user's."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(raw)
    if user != os.geteuid():
        raise PeerUnavailable(f"user {user} has no business here")
    return int(process)


class ProcessHandle:
    """A hold on a process, which stays that process' whatever becomes of its number (pidfd_open(2))."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = -1
        with contextlib.suppress(OSError):  # it has ended, or the kernel has no such thing
            self._fd = os.pidfd_open(pid)

    def kill(self) -> None:
        """End it, whatever it is at."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
