"""Writes to the socket of a client, past the transport, and the count of unacknowledged bytes."""

import contextlib
import fcntl
import os
import sys
import termios
from asyncio import Transport
from collections.abc import Sequence
from typing import Final

from forebay.core.buffers import Buffer

_NO_BYTES: Final = bytes(4)
"""A C integer, 0."""


def unacknowledged(transport: Transport | None, fd: int) -> int:
    """Bytes that were written and that the client has not acknowledged. The kernel accepts more only once a third of
    its buffer is free, which a slow client may take an hour for."""
    if transport is None:
        return 0
    queued = _NO_BYTES
    with contextlib.suppress(OSError, ValueError):
        queued = fcntl.ioctl(fd, termios.TIOCOUTQ, _NO_BYTES)
    return transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)


def write_now(transport: Transport | None, fd: int, pieces: Sequence[Buffer | bytes]) -> int:
    """Writes as much as the client accepts at once, past the transport, and returns how many bytes that was. Raises
    ConnectionError."""
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client has left")
    if transport.get_write_buffer_size():
        return 0
    try:
        return os.writev(fd, pieces)
    except BlockingIOError:
        return 0


def send_file_now(transport: Transport | None, fd: int, file: int, start: int, stop: int) -> int:
    """Sends as much of a file's bytes as the client accepts at once, past the transport, and returns how many that was.
    Raises ConnectionError."""
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client has left")
    if transport.get_write_buffer_size():
        return 0
    try:
        sent = os.sendfile(fd, file, start, stop - start)
    except BlockingIOError:
        return 0
    if not sent:
        raise ConnectionAbortedError("the file is shorter than it was")
    return sent
