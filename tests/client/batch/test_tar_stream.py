"""The TAR of a batch, decoded while it arrives: in pieces of any size, whole or broken off."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.protocol.batch.tar_entries import EntryMark, entry_header, mark_header
from forebay.protocol.tar_header import END_OF_TAR, padding
from forebay_client.batch.tar_stream import AHEAD, BELIEVED, TarBroken, TarStream
from forebay_client.transport.object_request import BodyInterrupted, ObjectResponse

_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=150)


class Pieces:
    """A body that arrives in pieces. Implements BodyStream. `breaks`: how it ends, instead of well."""

    def __init__(self, body: bytes, size: int = 1 << 30, *, breaks: bool = False) -> None:
        self._left, self._size, self._breaks = body, size, breaks
        self.is_closed = False

    def readinto(self, buffer: memoryview, /) -> int:
        count = min(len(buffer), self._size, len(self._left))
        if not count and self._breaks:
            raise BodyInterrupted("reset", ObjectResponse(200, {}), memoryview(b""), 0)
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def close(self) -> None:
        self.is_closed = True


def entry(name: str, body: bytes) -> bytes:
    return entry_header(name, len(body), 0) + body + padding(len(body))


def read(pieces: Pieces) -> list[tuple[str, bytes]]:
    return [(each.name, bytes(each.data)) for each in TarStream(pieces)]


@settings(max_examples=30)
@given(st.lists(st.tuples(_NAMES, st.binary(max_size=2000)), max_size=5), st.integers(1, 3000))
def test_any_pieces_make_the_same_entries(entries: list[tuple[str, bytes]], size: int) -> None:
    tar = b"".join(entry(name, body) for name, body in entries) + END_OF_TAR
    found = list(TarStream(Pieces(tar, size)))
    assert [(each.records.get("FOREBAY.key", each.name), bytes(each.data)) for each in found] == entries


@pytest.mark.parametrize("size", [AHEAD - 1, AHEAD, 3 * AHEAD + 7])
def test_large_entries_are_received_in_place(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    tar = entry("a", body[:size]) + entry("b", b"small") + END_OF_TAR
    assert read(Pieces(tar, 100_000)) == [("a", body[:size]), ("b", b"small")]


def test_marks_have_their_records() -> None:
    [mark] = TarStream(Pieces(mark_header("gone", EntryMark(404, "NoSuchKey", "no")) + END_OF_TAR))
    assert (mark.records["FOREBAY.status"], mark.records["FOREBAY.key"], len(mark.data)) == ("404", "gone", 0)


@given(st.integers(0, 4 * 512 + 1023), st.booleans())
def test_a_tar_that_ends_early_is_broken(stop: int, breaks: bool) -> None:
    tar = entry("a", b"first") + entry("b", b"second") + END_OF_TAR
    with pytest.raises(TarBroken):
        list(TarStream(Pieces(tar[:stop], breaks=breaks)))


@given(st.binary(max_size=3000))
def test_garbage_is_broken_or_a_tar(body: bytes) -> None:
    with pytest.raises(TarBroken):
        list(TarStream(Pieces(body + b"\1")))


@pytest.mark.parametrize("size", [99, 100, 101, 200, 1000, 12_345])
def test_an_entry_larger_than_is_believed_is_whole(size: int) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    tar = entry("a", body[:size]) + entry("b", b"small") + END_OF_TAR
    for pieces in (7, 1 << 20):
        found = [(each.name, bytes(each.data)) for each in TarStream(Pieces(tar, pieces), 100)]
        assert found == [("a", body[:size]), ("b", b"small")]


@pytest.mark.parametrize("size", ["8589934591", "1152921504606846976", "9" * 5000, "-1", "1_0", "x", ""])
def test_a_size_that_lies_takes_no_memory(size: str) -> None:
    """A header of POSIX may name any size; 8 GiB fit into one of before."""
    record = f" size={size}\n"
    length = next(number for number in range(5, 6000) if len(f"{number}{record}") == number)
    records = f"{length}{record}".encode()
    header = bytearray(entry_header("pax", len(records), 0))
    header[156] = ord("x")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    tar = bytes(header) + records + padding(len(records)) + entry("a", b"content") + END_OF_TAR
    tracemalloc.start()
    try:
        with pytest.raises(TarBroken):
            list(TarStream(Pieces(tar)))
        assert tracemalloc.get_traced_memory()[1] < BELIEVED + (8 << 20)
    finally:
        tracemalloc.stop()


def test_a_negative_size_is_no_header() -> None:
    header = bytearray(entry_header("a", 7, 0))
    header[124:136] = b"-0000000007\0"
    with pytest.raises(TarBroken, match="no header"):
        list(TarStream(Pieces(bytes(header) + END_OF_TAR)))
