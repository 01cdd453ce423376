"""Frames: received whole however they are split; anything invalid ends the connection."""

import asyncio
import socket
import struct

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.peers.byte_stream import ByteStream
from forebay.peers.frames import MAX_DOCUMENT, MAX_PAYLOAD, Channel


class Incoming:
    """A channel that receives what the test feeds. Nothing is written."""

    def __init__(self) -> None:
        self.stream = ByteStream()
        self.channel = Channel(self.stream, 0)

    def feed(self, data: bytes) -> None:
        """Has the stream receive `data`, while its buffer has room."""
        while data:
            target = self.stream.get_buffer(-1)
            count = min(len(target), len(data))
            target[:count], data = data[:count], data[count:]
            self.stream.buffer_updated(count)


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">IB", len(payload), kind) + payload


def whole(document: bytes, payload: bytes) -> bytes:
    return frame(4, struct.pack(">I", len(document)) + document + payload)


@pytest.mark.parametrize("step", [1, 3, 1000])
async def test_frames_arrive_whole_however_they_are_split(step: int) -> None:
    incoming = Incoming()
    sent = (
        frame(1, b'{"a": 1}') + frame(2, b"bytes") + frame(3, b"") + whole(b'{"w": 3}', b"all") + frame(1, b'{"b": 2}')
    )
    for start in range(0, len(sent), step):
        incoming.feed(sent[start : start + step])
    assert await incoming.channel.receive_document() == {"a": 1}
    assert (await incoming.channel.receive()).kind == "bytes"
    target = memoryview(bytearray(9))
    assert (await incoming.channel.receive_bytes(target), bytes(target[:5])) == (5, b"bytes")
    assert (await incoming.channel.receive()).kind == "end"
    received = await incoming.channel.receive()
    assert (received.kind, received.document, bytes(received.payload)) == ("whole", {"w": 3}, b"all")
    assert await incoming.channel.receive_document() == {"b": 2}


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">IB", MAX_DOCUMENT + 1, 1),
        struct.pack(">IB", MAX_PAYLOAD + 1, 2),
        struct.pack(">IB", 1, 3) + b"x",
        struct.pack(">IB", 0, 4),
        struct.pack(">IB", 0, 5),
        struct.pack(">IB", MAX_PAYLOAD + 1, 4),
        frame(4, struct.pack(">I", 3) + b"{}"),
        frame(4, struct.pack(">I", 2) + b"[]rest"),
        whole(b"{}", b"where a document alone belongs"),
        frame(1, b"[1]"),
        frame(1, b"{"),
        frame(1, b"\xff"),
        frame(2, b"bytes where a document belongs"),
        frame(1, b'{"cut": ')[:-3],
        b"GET / HTTP/1.1\r\n\r\n",
        b"",
    ],
    ids=range(16),
)
async def test_an_invalid_frame_ends_the_connection(sent: bytes) -> None:
    incoming = Incoming()
    incoming.feed(sent)
    incoming.stream.eof_received()
    with pytest.raises(PeerUnavailable):
        await incoming.channel.receive_document()


async def test_a_connection_that_has_ended_is_handed_over_to_nobody() -> None:
    """The protocol would wait for its end for ever, as the transport tells of that once."""
    ours, theirs = socket.socketpair()
    with theirs:
        transport, stream = await asyncio.get_running_loop().create_connection(ByteStream, sock=ours)
        channel, made = Channel(stream, 0), list[asyncio.BaseTransport]()

        class Receiver(asyncio.BufferedProtocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.append(transport)

        channel.hand_over(Receiver())
        assert made == [transport]
        channel.close()
        with pytest.raises(PeerUnavailable):
            channel.hand_over(Receiver())
        assert made == [transport]
