"""What a channel makes of the answers to a read: of files that it has, and of answers that nobody should send."""

import array
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from forebay.protocol.channel_frames import (
    DROPPED,
    FRAME,
    MEMORY,
    PIECE,
    SEGMENT,
    SWITCHED,
    UPGRADE,
    WITH_DESCRIPTOR,
)
from forebay.server.shared_memory.sealed_memory import SealedMemory
from forebay_client.shared_memory.channel import ClientChannel
from forebay_client.shared_memory.channel_input import ChannelBroken

HEAD = b"HTTP/1.1 200 OK\r\nx-number: 1\r\n\r\n"
SIZE = 64 << 10
CONTENT = bytes(range(256)) * (SIZE // 256)


class Sender:
    """A Forebay that answers whatever a test says."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        switching = Thread(target=self._switch)
        switching.start()
        self.channel = ClientChannel(str(path), 5.0)
        switching.join()
        self.memory = SealedMemory(SIZE)
        self.memory.view[:] = CONTENT

    def _switch(self) -> None:
        self._connected, _ = self._listener.accept()
        assert self._connected.recv(len(UPGRADE), socket.MSG_WAITALL) == UPGRADE
        self._connected.sendall(SWITCHED)

    def send(self, data: bytes, *, with_file: bool = False) -> None:
        if not with_file:
            self._connected.sendall(data)
            return
        fd = self.memory.file.open_reader()
        self._connected.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        os.close(fd)

    def pass_file(self) -> None:
        """Has the channel receive the file as number 7."""
        self.send(answer((7, WITH_DESCRIPTOR, SIZE, 0), flags=WITH_DESCRIPTOR), with_file=True)
        assert self.channel.read(b"GET")[1] == CONTENT

    def close(self) -> None:
        self.channel.close()
        self._connected.close()
        self._listener.close()
        self.memory.close()


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Sender]:
    made = Sender(tmp_path / "s")
    yield made
    made.close()


def answer(*pieces: tuple[int, int, int, int], flags: int = 0, kind: int = MEMORY, length: int | None = None) -> bytes:
    size = sum(piece[2] for piece in pieces) if length is None else length
    frame = FRAME.pack(kind, flags, len(pieces), len(HEAD), 0, size)
    return b"".join((frame, *(PIECE.pack(*piece) for piece in pieces), HEAD))


@pytest.mark.parametrize(
    "pieces",
    [
        [(7, 0, SIZE, 0)],
        [(7, 0, 5000, 4096)],
        [(7, 0, 100, 77)],
        [(7, 0, 4096, 8192), (7, 0, 4096, 0)],
        [(7, 0, 10, 8), (7, 0, 4096, 1)],
    ],
)
def test_a_part_of_a_file_that_is_there(sender: Sender, pieces: list[tuple[int, int, int, int]]) -> None:
    sender.pass_file()
    sender.send(answer(*pieces))
    head, body = sender.channel.read(b"GET")
    assert head["x-number"] == "1"
    assert body == b"".join(CONTENT[at : at + size] for _, _, size, at in pieces)
    assert body.readonly


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(answer((8, 0, SIZE, 0)), id="a file that was never passed"),
        pytest.param(answer((7, 0, SIZE, 1)), id="behind the end of the file"),
        pytest.param(answer((7, 0, 1, 1 << 63)), id="far behind it"),
        pytest.param(answer((7, 0, 100, 0), length=200), id="shorter than it says"),
        pytest.param(answer((7, WITH_DESCRIPTOR, SIZE, 0)), id="a descriptor that did not come"),
        pytest.param(answer((7, 0, 10, 0), (8, 0, 10, 0)), id="one of two was never passed"),
        pytest.param(answer(), id="no piece"),
        pytest.param(answer((0, 0, 10, 0), kind=SEGMENT), id="a segment without a descriptor"),
        pytest.param(FRAME.pack(DROPPED, 0, 0, 0, 7, 0) + answer((7, 0, SIZE, 0)), id="a file that was dropped"),
    ],
)
def test_an_answer_that_cannot_be_ends_the_channel(sender: Sender, data: bytes) -> None:
    sender.pass_file()
    sender.send(data)
    with pytest.raises(ChannelBroken, match="garbage"):
        sender.channel.read(b"GET")
    with pytest.raises(ChannelBroken):
        sender.channel.read(b"GET")


def test_views_outlive_the_channel_and_then_nothing_is_held(sender: Sender) -> None:
    sender.pass_file()
    sender.send(answer((7, 0, 100, 77)))
    view = sender.channel.read(b"GET")[1]
    sender.channel.close()
    assert view == CONTENT[77:177]
    assert sender.memory.file.is_held()
    del view
    assert not sender.memory.file.is_held()
