"""A Unix socket in front of another, which ends, hangs or loses descriptors at a byte that a test says.

    with SocketRelay(rig.socket, path) as relay:
        relay.cut_after = 40            # bytes of each answer, counted behind the switch to the read channel

Everything else is passed on as it is, descriptors with the bytes that they came with.
"""

import array
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Self

from forebay.protocol.channel_frames import MAX_PIECES, SWITCHED

_RIGHTS = socket.CMSG_SPACE(4 * MAX_PIECES)
_BUFFER = 64 << 10


class SocketRelay:
    """See the module."""

    def __init__(self, target: str, path: Path) -> None:
        self.path, self._target = str(path), target
        self.cut_after: int | None = None
        """Negative: so many bytes before the end of the switch. None: never."""
        self.hangs = False
        """Whether nothing comes after the cut, in place of an end."""
        self.loses_descriptors = False
        self.passed = 0
        """Bytes of the last connection's answers."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._open = [self._listener]
        self._threads: list[Thread] = []

    def __enter__(self) -> Self:
        self._listener.bind(self.path)
        self._listener.listen()
        self._run(self._accept)
        return self

    def __exit__(self, *why: object) -> None:
        for each in self._open:
            _end(each)
        for thread in self._threads:
            thread.join()
        for each in self._open:
            each.close()

    def _run(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        thread = Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._open += [client, server]
            self._run(self._pass_requests, client, server)
            self._run(self._pass_answers, server, client)

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(_BUFFER):
                server.sendall(data)
        _end(server)

    def _pass_answers(self, server: socket.socket, client: socket.socket) -> None:
        self.passed = -len(SWITCHED)
        with suppress(OSError):
            while True:
                data, rights, _, _ = server.recvmsg(_BUFFER, _RIGHTS)
                left = self.cut_after - self.passed if self.cut_after is not None else len(data)
                self._send(client, data[:left], rights)
                if left < len(data) and self.hangs:
                    return
                if left < len(data) or not data:
                    break
        _end(client)
        _end(server)

    def _send(self, client: socket.socket, data: bytes, rights: list[tuple[int, int, bytes]]) -> None:
        numbers = array.array("i", b"".join(each for _, _, each in rights))
        try:
            passed = numbers if not self.loses_descriptors else array.array("i")
            if data:
                sent = client.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)] if passed else [])
                client.sendall(data[sent:])
        finally:
            for number in numbers:
                os.close(number)
        self.passed += len(data)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
