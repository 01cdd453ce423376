"""The Unix socket that clients connect to: bound for nobody, then given its group and its mode.

So whoever may not connect never can. A socket that another Forebay listens on is not replaced; what a killed one has
left is. All workers of a node accept from one listening socket, which their supervisor has bound.
"""

import contextlib
import errno
import grp
import os
import socket
from pathlib import Path
from typing import Final

from forebay.core.errors import AddressUnavailable
from forebay.server.http.listening_sockets import BACKLOG
from forebay.settings.model import ServerSettings

MAX_PATH: Final = 107
"""Bytes of a socket's path (unix(7): sun_path)."""


class SocketFile:
    """A listening Unix socket and its file. Ended by `close`."""

    def __init__(self, path: str, listening: socket.socket) -> None:
        self.path, self.listening = path, listening
        self._inode = Path(path).stat().st_ino

    def close(self) -> None:
        """Closes the socket and removes its file, unless it has been replaced."""
        self.listening.close()
        with contextlib.suppress(OSError):
            if Path(self.path).stat().st_ino == self._inode:
                Path(self.path).unlink()


def listen_on_socket(server: ServerSettings) -> SocketFile | None:
    """Returns the socket of `server.socket`, listening; None: none is set. Raises AddressUnavailable."""
    if server.socket is None:
        return None
    path = server.socket
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _refuse_if_served(path)
        _bind(listening, path, int(server.socket_mode, 8), server.socket_group)
        return SocketFile(path, listening)
    except (OSError, KeyError) as error:
        listening.close()
        raise AddressUnavailable(f"server.socket: {path} can't be listened on ({_reason(error)}).") from error


def _refuse_if_served(path: str) -> None:
    """Raises OSError if a process listens on the socket, or the file is no socket."""
    if not os.path.lexists(path):
        return
    if not Path(path).is_socket():
        raise FileExistsError(errno.EEXIST, "a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return
    raise OSError(errno.EADDRINUSE, "another program uses it")


def _bind(listening: socket.socket, path: str, mode: int, group: str | None) -> None:
    """Binds to `path` with its mode and group in force from the start. Raises OSError, KeyError."""
    if len(os.fsencode(path)) > MAX_PATH:
        raise OSError(errno.ENAMETOOLONG, f"a socket's path has at most {MAX_PATH} bytes")
    file = Path(path)
    file.unlink(missing_ok=True)
    before = os.umask(0o777)
    try:
        listening.bind(path)
    finally:
        os.umask(before)
    try:
        if group is not None:
            os.chown(path, -1, int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid)
        listening.listen(BACKLOG)
        file.chmod(mode)
    except BaseException:
        file.unlink()
        raise


def _reason(error: OSError | KeyError) -> str:
    if isinstance(error, KeyError):
        return "there is no such group: server.socket_group"
    return str(error.strerror)
