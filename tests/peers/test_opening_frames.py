"""Opening frames: encoded and decoded, cut anywhere on the way, and never believed."""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.peers.opening_frames import (
    MAX_FRAME,
    OpeningAnswer,
    OpeningConnection,
    OpeningRequest,
    decode_answer,
    decode_request,
    encode_answer,
    encode_refusal,
    encode_request,
    number_of,
)

NAME = ObjectName("bucket", "a/\udc80 key\nof ümläuts")
FACTS = ObjectFacts(Version('"etag"'), 9, "Tue, 24 Nov 2026 12:00:00 GMT", (("Content-Type", "a/b"), ("x-empty", "")))
HEAD = head_of(FACTS, 64, 1_800_000_000.25)
BODY = b"all of it"


def answer_of(head: Head, *, was_kept: bool = False) -> bytes:
    encoded = encode_answer(7, head, was_kept=was_kept)
    assert encoded is not None
    return encoded + BODY


class Recorder(OpeningConnection):
    """Keeps the frames, and decodes them."""

    def __init__(self, decode: Callable[[bytes, int, int], object] = decode_answer) -> None:
        super().__init__()
        self.decode = decode
        self.frames: list[object] = []
        self.rooms: list[memoryview] = []
        """For the next large bodies, the last one first."""
        self.asked: list[tuple[int, int]] = []
        """The number and the size of each body that room was asked for."""

    def frame_received(self, received: bytes, start: int, stop: int, body: memoryview | None) -> None:
        self.frames.append(
            self.decode(received, start, stop) if body is None else decode_answer(received, start, stop, body)
        )

    def make_room(self, received: bytes, start: int, size: int) -> memoryview | None:
        self.asked.append((number_of(received, start, len(received)), size))
        return self.rooms.pop() if self.rooms else None


def receive(recorder: Recorder, data: bytes) -> None:
    """Has a connection receive `data`, as much of it at once as it takes."""
    while data:
        target = recorder.get_buffer(-1)
        count = min(len(target), len(data))
        target[:count], data = data[:count], data[count:]
        recorder.buffer_updated(count)


class Written(asyncio.Transport):
    """A transport that knows only whether it was aborted."""

    aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


def connected(recorder: Recorder) -> Written:
    transport = Written()
    recorder.connection_made(transport)
    return transport


def test_a_request_is_what_was_encoded() -> None:
    raw = encode_request(2**32 - 1, NAME, 5 << 20)
    assert decode_request(b"xy" + raw + b"z", 2, 2 + len(raw)) == OpeningRequest(2**32 - 1, NAME, 5 << 20)


@pytest.mark.parametrize(
    "facts",
    [
        FACTS,
        replace(FACTS, version=Version('"e"', "id")),
        replace(FACTS, version=Version('"e"', ""), checksums_known=True),
        replace(FACTS, headers=(), last_modified=""),
        replace(FACTS, headers=(("x-amz-meta-\udcff", "ä\udc80"),)),
    ],
)
@pytest.mark.parametrize("was_kept", [False, True])
def test_an_answer_is_what_was_encoded(facts: ObjectFacts, was_kept: bool) -> None:
    head = head_of(facts, 64, 1_800_000_000.25)
    raw = answer_of(head, was_kept=was_kept)
    answer = decode_answer(b"xy" + raw + b"z", 2, 2 + len(raw))
    assert answer is not None
    assert (answer.head, bytes(answer.body), number_of(raw, 0, len(raw))) == (head, BODY, 7)
    assert (answer.head.facts.checksums_known, answer.was_kept) == (facts.checksums_known, was_kept)


def test_a_refusal_names_its_request() -> None:
    raw = encode_refusal(9)
    assert (decode_answer(raw, 0, len(raw)), number_of(raw, 0, len(raw))) == (None, 9)


def test_a_head_of_another_form_is_not_encoded() -> None:
    assert encode_answer(7, replace(HEAD, by_id=True)) is None
    assert encode_answer(7, head_of(replace(FACTS, headers=(("a", "b\nc"),)), 64, 0.0)) is None


def lengthened(raw: bytes, count: int) -> bytes:
    """A frame that ends later, or sooner."""
    (length,) = struct.unpack_from(">I", raw)
    return struct.pack(">I", length + count) + (raw + bytes(count) if count > 0 else raw)[4 : 4 + length + count]


@pytest.mark.parametrize("count", [1, -1, -len(BODY), -len(BODY) - 1, -len(BODY) - 30])
def test_an_answer_of_another_length_is_refused(count: int) -> None:
    raw = lengthened(answer_of(HEAD), count)
    with pytest.raises(PeerUnavailable):
        decode_answer(raw, 0, len(raw))


def test_an_answer_of_an_object_without_blocks_is_refused() -> None:
    raw = answer_of(replace(HEAD, block_size=0))
    with pytest.raises(PeerUnavailable):
        decode_answer(raw, 0, len(raw))


@pytest.mark.parametrize("size", range(12))
def test_an_answer_without_a_number_is_refused(size: int) -> None:
    """Also where what follows it would do for one."""
    with pytest.raises(PeerUnavailable):
        number_of(bytes(20), 0, size)


@pytest.mark.parametrize(
    "raw", [b"", b"\0" * 17, encode_request(1, ObjectName("b", ""), 1), encode_request(1, NAME, 0)]
)
def test_a_request_for_nothing_is_refused(raw: bytes) -> None:
    with pytest.raises(PeerUnavailable):
        decode_request(raw, 0, len(raw))


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 50, 1000])
async def test_frames_may_be_cut_anywhere(piece: int) -> None:
    recorder = Recorder()
    connected(recorder)
    raw = answer_of(HEAD) + encode_refusal(1) + answer_of(HEAD) + encode_refusal(2)
    for start in range(0, len(raw), piece):
        receive(recorder, raw[start : start + piece])
    await asyncio.sleep(0)
    first, second, third, last = recorder.frames
    assert (first, second, third, last) == ((HEAD, BODY, False), None, (HEAD, BODY, False), None)


async def test_each_frame_has_a_turn_of_its_own() -> None:
    recorder = Recorder()
    connected(recorder)
    asyncio.get_running_loop().call_soon(lambda: recorder.frames.append("before"))
    receive(recorder, encode_refusal(1) * 3)
    assert recorder.frames == []
    await asyncio.sleep(0)
    assert recorder.frames == ["before", None, None, None]


@pytest.mark.parametrize("raw", [lengthened(answer_of(HEAD), -1), struct.pack(">I", MAX_FRAME), b"\0" * 4])
async def test_what_does_not_fit_ends_the_connection(raw: bytes) -> None:
    recorder = Recorder()
    transport = connected(recorder)
    receive(recorder, raw)
    await asyncio.sleep(0)
    assert (transport.aborted, recorder.frames) == (True, [])


async def test_nothing_is_handled_behind_the_end() -> None:
    recorder = Recorder()
    connected(recorder)
    receive(recorder, encode_refusal(1))
    recorder.connection_lost(None)
    await recorder.ended
    assert recorder.frames == []


LARGE = bytes(range(256)) * 1200


def large_answer(number: int) -> bytes:
    encoded = encode_answer(number, head_of(replace(FACTS, size=len(LARGE)), len(LARGE), 0.0))
    assert encoded is not None
    return encoded + LARGE


@pytest.mark.parametrize("piece", [7, 130, 4096, 128 * 1024, 10**6])
async def test_a_large_body_is_received_where_it_is_kept(piece: int) -> None:
    recorder, room = Recorder(), memoryview(bytearray(len(LARGE)))
    connected(recorder)
    recorder.rooms.append(room)
    raw = encode_refusal(1) + large_answer(2) + encode_refusal(3) + large_answer(4) + answer_of(HEAD)
    for start in range(0, len(raw), piece):
        receive(recorder, raw[start : start + piece])
    await asyncio.sleep(0)
    refused, kept, again, dropped, small = recorder.frames
    assert isinstance(kept, OpeningAnswer)
    assert isinstance(dropped, OpeningAnswer)
    assert kept.body.obj is room.obj
    assert kept.body == LARGE
    assert dropped.body == LARGE
    assert (refused, again, small) == (None, None, (HEAD, BODY, False))
    assert recorder.asked == [(2, len(LARGE)), (4, len(LARGE))]


async def test_half_a_large_body_is_no_frame() -> None:
    recorder = Recorder()
    connected(recorder)
    receive(recorder, large_answer(2)[:-1])
    await asyncio.sleep(0)
    assert recorder.frames == []


async def test_a_large_answer_whose_texts_do_not_end_is_refused() -> None:
    """They would be longer than the frame: it is read to its end, and then given up."""
    recorder = Recorder()
    transport = connected(recorder)
    raw = bytearray(large_answer(2))
    raw[8:12] = struct.pack(">I", len(raw))
    receive(recorder, bytes(raw))
    await asyncio.sleep(0)
    assert (transport.aborted, recorder.frames, recorder.asked) == (True, [], [])
