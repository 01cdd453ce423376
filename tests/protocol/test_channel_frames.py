"""The bytes of a read channel: whole, byte by byte, and with trailing bytes."""

import pytest

from forebay.protocol.channel_frames import (
    FRAME,
    MAX_BODY,
    MAX_HEAD,
    MAX_RELEASES,
    MEMORY,
    MESSAGE,
    PIECE,
    message,
    read_frame,
    read_message,
    read_pieces,
    sole_head,
)

HEAD = b"GET /b/k HTTP/1.1\r\nhost: h\r\n\r\n"


@pytest.mark.parametrize("releases", [(), (0,), (7, 1 << 31, 3)])
@pytest.mark.parametrize(("head", "body"), [(HEAD, b""), (b"", b""), (HEAD, b"{}")])
def test_a_message_is_read_as_it_was_written(releases: tuple[int, ...], head: bytes, body: bytes) -> None:
    releases = releases if head else (*releases, 5)  # one with neither is none
    data = message(head, releases, body)
    found = read_message(b"before" + data + b"behind", len(b"before"))
    assert found is not None
    assert (found.releases, found.head, found.body, found.size) == (releases, head, body, len(data))


def test_a_message_that_is_nothing_but_a_head_is_known_at_once() -> None:
    assert sole_head(message(HEAD)) == HEAD
    data = message(HEAD)
    others = (
        b"",
        data[:-1],
        data + b"x",
        data + data,
        message(HEAD, (1,)),
        message(b"", (1,)),
        message(HEAD, (), b"{}"),
    )
    wrong = (message(HEAD + HEAD), message(HEAD[:-1]), message(b"x" * (MAX_HEAD + 1)))
    assert [sole_head(other) for other in (*others, *wrong)] == [b""] * 10


def test_every_part_of_a_message_waits_for_the_rest() -> None:
    data = message(HEAD, (1, 2), b"{}")
    assert [read_message(data[:end]) for end in range(len(data))] == [None] * len(data)


@pytest.mark.parametrize(
    "data",
    [
        MESSAGE.pack(MAX_RELEASES + 1, 0, 0),
        MESSAGE.pack(0, MAX_HEAD + 1, 0),
        MESSAGE.pack(0, 100, MAX_BODY + 1),
        MESSAGE.pack(0, 0, 1) + b"{",
        message(b""),
        message(HEAD + HEAD),
        message(HEAD[:-1]),
        message(b"\r\n\r\nGET / HTTP/1.1"),
    ],
)
def test_what_can_be_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"a message|a head"):
        read_message(data)


def test_a_frame_and_its_pieces_are_read_as_they_were_written() -> None:
    assert read_frame(FRAME.pack(MEMORY, 1, 2, 300, 4096, 1 << 40)) == (MEMORY, 1, 2, 300, 4096, 1 << 40)
    data = PIECE.pack(3, 1, 100, 1 << 33) + PIECE.pack(4, 0, 200, 0)
    assert read_pieces(data + b"head", 2) == [(3, 1, 100, 1 << 33), (4, 0, 200, 0)]


@pytest.mark.parametrize("kind", [0, 8, 255])
def test_an_unknown_kind_of_frame_is_refused(kind: int) -> None:
    with pytest.raises(ValueError, match="kind"):
        read_frame(FRAME.pack(kind, 0, 0, 0, 0, 0))
