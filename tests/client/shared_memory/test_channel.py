"""What a channel makes of the answers to a read: of files that it has, and of answers that nobody should send."""

import array
import fcntl
import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from weakref import ref

import pytest

from forebay.protocol.channel_frames import (
    DROPPED,
    FRAME,
    MAX_FILES,
    MAX_PIECES,
    MEMORY,
    PIECE,
    RING,
    SEGMENT,
    SLOT_UNIT,
    SWITCHED,
    UPGRADE,
    WITH_DESCRIPTOR,
)
from forebay.server.shared_memory.sealed_memory import FIXED_SIZE, SealedMemory
from forebay_client.shared_memory.channel import ClientChannel
from forebay_client.shared_memory.channel_input import ChannelBroken
from harness.file_threads import join_file_threads

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

    def send(self, data: bytes, *descriptors: int) -> None:
        if not descriptors:
            self._connected.sendall(data)
            return
        self._connected.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])

    def pass_file(self, number: int = 7) -> None:
        """Has the channel receive the file as that number."""
        fd = self.memory.file.open_reader()
        self.send(answer((number, WITH_DESCRIPTOR, SIZE, 0), flags=WITH_DESCRIPTOR), fd)
        os.close(fd)
        assert self.channel.read(b"GET")[1] == CONTENT

    def end(self) -> None:
        self._connected.close()

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
        pytest.param(FRAME.pack(DROPPED, 0, 0, 0, 8, 0) + answer((7, 0, SIZE, 0)), id="dropped, and never passed"),
        pytest.param(answer(*[(7, 0, 1, 0)] * (MAX_PIECES + 1)), id="more pieces than may be"),
    ],
)
def test_an_answer_that_cannot_be_ends_the_channel(sender: Sender, data: bytes) -> None:
    sender.pass_file()
    sender.send(data)
    with pytest.raises(ChannelBroken, match="garbage"):
        sender.channel.read(b"GET")
    with pytest.raises(ChannelBroken):
        sender.channel.read(b"GET")


def descriptors() -> int:
    join_file_threads()
    gc.collect()  # what other tests have left
    return len(list(Path("/proc/self/fd").iterdir()))


def test_more_descriptors_than_frames_have_end_the_channel(sender: Sender) -> None:
    """As many came in as the process may have, if a server sent them byte by byte."""
    before = descriptors()
    rights = [sender.memory.file.open_reader()] * MAX_PIECES
    data = answer(*[(number, WITH_DESCRIPTOR, 1, 0) for number in range(MAX_PIECES)], flags=WITH_DESCRIPTOR)
    for at in range(3):
        sender.send(data[at : at + 1], *rights)
    with pytest.raises(ChannelBroken, match="garbage"):
        sender.channel.read(b"GET")
    os.close(rights[0])
    assert descriptors() == before - 1  # without the socket


def test_more_files_than_a_channel_has_end_it(sender: Sender) -> None:
    for number in range(MAX_FILES):
        sender.pass_file(number)
    with pytest.raises(ChannelBroken, match="garbage"):
        sender.pass_file(MAX_FILES)
    assert not sender.memory.file.is_held()


def test_a_slot_that_cannot_be_given_back_ends_the_channel(sender: Sender) -> None:
    """Its number is of 32 bits: the next read failed, and not over to HTTP."""
    beyond = (1 << 32) * SLOT_UNIT
    fd = os.memfd_create("ring", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, beyond + SLOT_UNIT)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, FIXED_SIZE)
    sender.send(FRAME.pack(RING, WITH_DESCRIPTOR, 0, len(HEAD), beyond, SLOT_UNIT) + HEAD, fd)
    os.close(fd)
    with pytest.raises(ChannelBroken, match="garbage"):
        sender.channel.read(b"GET")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev", "pipe"])
def test_a_segment_is_a_file(sender: Sender, path: str) -> None:
    pipe = os.pipe()
    fd = os.open(path, os.O_RDONLY) if path != "pipe" else os.dup(pipe[0])
    before = descriptors()
    sender.send(answer((0, 0, 10, 0), kind=SEGMENT, flags=WITH_DESCRIPTOR), fd)
    with pytest.raises(ChannelBroken, match="garbage"):
        sender.channel.read(b"GET")
    assert descriptors() == before - 1  # without the socket
    for each in (fd, *pipe):
        os.close(each)


def test_no_descriptor_is_left_of_segments_that_lack_one(sender: Sender) -> None:
    fd = sender.memory.file.open_reader()
    before = descriptors()
    sender.send(answer((0, 0, 10, 0), (1, 0, 10, 0), kind=SEGMENT, flags=WITH_DESCRIPTOR), fd)
    with pytest.raises(ChannelBroken, match="garbage"):
        sender.channel.read(b"GET")
    assert descriptors() == before - 1  # without the socket
    os.close(fd)


def test_views_outlive_the_channel_and_then_nothing_is_held(sender: Sender) -> None:
    sender.pass_file()
    sender.send(answer((7, 0, 100, 77)))
    view = sender.channel.read(b"GET")[1]
    sender.channel.close()
    assert view == CONTENT[77:177]
    assert sender.memory.file.is_held()
    del view
    assert not sender.memory.file.is_held()


@pytest.mark.parametrize("call", ["read", "receive_batch", "send_batch"])
@pytest.mark.parametrize("data", [b"", b"\xff" * FRAME.size], ids=["ended", "garbage"])
def test_a_failure_keeps_nothing_alive(sender: Sender, data: bytes, call: str) -> None:
    """Rings stay mapped as long as the frames of an exception: for ever, where the collector of cycles is off."""
    sender.send(data)
    sender.end()
    calls = {"read": (b"GET",), "receive_batch": (), "send_batch": (b"POST" * 2000, b"x" * (4 << 20))}
    gc.collect()
    gc.disable()
    try:
        try:
            getattr(sender.channel, call)(*calls[call])
        except ChannelBroken as error:
            failure = ref(error)
        assert failure() is None
    finally:
        gc.enable()
