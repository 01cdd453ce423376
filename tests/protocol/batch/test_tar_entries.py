"""The TAR of a batch, read by the standard library."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.batch.tar_entries import EntryMark, entry_header, mark_header
from forebay.protocol.tar_header import BLOCK, END_OF_TAR, padding

_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=150)


def members(tar: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(tar + END_OF_TAR)) as archive:
        return archive.getmembers()


@given(_NAMES, st.binary(max_size=1500), st.integers(0, 1 << 33), st.none() | st.integers(0, 10_000))
def test_every_name_and_size_is_read_back(name: str, body: bytes, modified_at: int, index: int | None) -> None:
    entry = entry_header(name, len(body), modified_at, index) + body + padding(len(body))
    assert len(entry) % BLOCK == 0
    with tarfile.open(fileobj=io.BytesIO(entry * 2 + END_OF_TAR)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            assert file.read() == body
            assert member.pax_headers.get("FOREBAY.key", member.name) == name
            assert member.pax_headers.get("FOREBAY.index") == (None if index is None else str(index))
            assert member.mtime == min(modified_at, 8**11 - 1)


@given(_NAMES, st.text(st.characters(exclude_categories=["Cs"]), max_size=100))
def test_a_mark_says_why(name: str, message: str) -> None:
    [member] = members(mark_header(name, EntryMark(404, "NoSuchKey", message), 7))
    assert (member.name, member.size) == (f".forebay/errors/{name}".rstrip("/"), 0)
    assert member.pax_headers["FOREBAY.status"] == "404"
    assert member.pax_headers["FOREBAY.code"] == "NoSuchKey"
    assert member.pax_headers["FOREBAY.message"] == message
    assert (member.pax_headers["FOREBAY.key"], member.pax_headers["FOREBAY.index"]) == (name, "7")


def test_a_plain_name_takes_one_header() -> None:
    assert len(entry_header("train/0001.jpg", 10, 0)) == BLOCK
    assert len(entry_header("x" * 100, 10, 0)) == BLOCK


@pytest.mark.parametrize("size", [(8 << 30) - 1, 8 << 30, 5 << 40])
def test_a_large_entry_has_its_size(size: int) -> None:
    info = tarfile.open(fileobj=io.BytesIO(entry_header("large", size, 0) + END_OF_TAR)).next()  # noqa: SIM115 # in memory
    assert info is not None
    assert info.size == size
