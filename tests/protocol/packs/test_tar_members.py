"""Shards as other programs read them."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.packs.tar_members import member_header
from forebay.protocol.tar_header import END_OF_TAR, padding
from harness.packed_objects import KEYS

LONG = "d" * 120 + "/" + "n" * 90
NAMES = st.one_of(KEYS, st.text("ab/", min_size=1, max_size=300), st.just(LONG), st.just("x" * 1024))


def archive_of(objects: list[tuple[str, bytes]]) -> tuple[bytes, list[int]]:
    """The archive, and where the bytes of each member begin."""
    archive, offsets = b"", []
    for key, content in objects:
        archive += member_header(key, len(content), 1_700_000_000)
        offsets.append(len(archive))
        archive += content + padding(len(content))
    return archive + END_OF_TAR, offsets


@given(st.lists(st.tuples(NAMES, st.binary(max_size=1100)), max_size=5))
def test_tarfile_reads_every_member(objects: list[tuple[str, bytes]]) -> None:
    archive, offsets = archive_of(objects)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        found = opened.getmembers()
        assert [each.offset_data for each in found] == offsets
        assert [each.size for each in found] == [len(content) for _, content in objects]
        assert [each.name.rstrip("/") for each in found] == [key.rstrip("/") for key, _ in objects]
        assert {each.mtime for each in found} <= {1_700_000_000}
    assert all(offset % 512 == 0 for offset in offsets)
    assert len(archive) % 512 == 0


def test_a_size_beyond_ustar_is_in_a_pax_header() -> None:
    header = member_header("large", 9 << 30, 0)
    with tarfile.open(fileobj=io.BytesIO(header + bytes(512)), ignore_zeros=False) as opened:
        member = opened.next()
    assert member is not None
    assert (member.name, member.size) == ("large", 9 << 30)


@pytest.mark.parametrize(("size", "length"), [(0, 0), (1, 512), (512, 512), (513, 1024)])
def test_members_are_filled_up(size: int, length: int) -> None:
    assert size + len(padding(size)) == length


def test_tar_extracts_a_shard(tmp_path: Path) -> None:
    objects = [("a/ä.txt", b"one"), (LONG, b"two"), ("b", b"")]
    (tmp_path / "shard.tar").write_bytes(archive_of(objects)[0])
    subprocess.run(["tar", "-xf", "shard.tar"], cwd=tmp_path, check=True)
    assert [(tmp_path / key).read_bytes() for key, _ in objects] == [content for _, content in objects]
