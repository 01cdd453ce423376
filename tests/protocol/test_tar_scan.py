import io
import random
import tarfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.tar_scan import MalformedTar, TarMember, TarScan

NAMES = st.text(st.characters(min_codepoint=1, max_codepoint=0x2FFF), min_size=1, max_size=300).filter(
    lambda name: not name.endswith("/")
)
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def archive(files: dict[str, bytes], kind: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files.items():
            information = tarfile.TarInfo(name)
            information.size = len(content)
            tar.addfile(information, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "x" * 150 if kind != tarfile.USTAR_FORMAT else "x"
        tar.addfile(link)
    return file.getvalue()


def scanned(content: bytes, window: int) -> list[TarMember]:
    """The members, from pieces of `window` bytes."""
    scan, found = TarScan(), list[TarMember]()
    while not scan.is_complete:
        piece = content[scan.position : scan.position + max(window, scan.needed)]
        before = scan.position, scan.needed
        found += scan.feed(piece)
        if (scan.position, scan.needed) == before and not scan.is_complete:
            scan.end(len(content))
    return found


@given(
    st.dictionaries(NAMES, st.binary(max_size=2000), max_size=8),
    st.sampled_from(FORMATS[1:]),
    st.sampled_from([512, 700, 4096, 1 << 20]),
)
def test_members_are_where_tarfile_has_them(files: dict[str, bytes], kind: int, window: int) -> None:
    content = archive(files, kind)
    found = scanned(content, window)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        expected = [(each.name, each.offset_data, each.size) for each in tar if each.isfile()]
    assert [tuple(each) for each in found] == expected


def test_ustar_prefixes_and_sizes_in_base_256() -> None:
    name = "/".join(["folder" * 5] * 6)
    (found,) = scanned(archive({name: b"content"}, tarfile.USTAR_FORMAT), 512)
    assert (found.name, found.size) == (name, 7)
    large = tarfile.TarInfo("large")
    large.size = 9 << 30
    (member,) = TarScan().feed(large.tobuf(tarfile.GNU_FORMAT))
    assert member == TarMember("large", 512, 9 << 30)


def test_an_archive_without_its_last_blocks_is_taken() -> None:
    content = archive({"a": b"1" * 512}, tarfile.PAX_FORMAT).rstrip(b"\0")
    content += bytes(-len(content) % 512)
    assert [each.name for each in scanned(content, 512)] == ["a"]


@pytest.mark.parametrize("content", [b"no TAR" * 200, b"\x1f\x8b" + bytes(range(256)) * 4])
def test_what_is_no_tar_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedTar):
        scanned(content, 512)


@pytest.mark.parametrize("left", [100, 513, 1000])
def test_an_archive_that_is_cut_short_is_refused(left: int) -> None:
    with pytest.raises(MalformedTar, match="cut short"):
        scanned(archive({"é" * 200: b"1" * 2000}, tarfile.PAX_FORMAT)[512 : 512 + left], 512)


def test_members_before_the_damage_are_found() -> None:
    content = bytearray(archive({"a": b"1", "b": b"2"}, tarfile.GNU_FORMAT))
    second = content.index(b"b\0")
    content[second] ^= 1
    scan = TarScan()
    assert [each.name for each in scan.feed(bytes(content))] == ["a"]
    with pytest.raises(MalformedTar):
        scan.feed(bytes(content[scan.position :]))


def test_damage_ends_in_an_error_or_in_members() -> None:
    content, numbers = archive({"é" * 90: b"1" * 600, "b": b"2"}, tarfile.PAX_FORMAT), random.Random(1)
    for _ in range(2000):
        damaged = bytearray(content)
        damaged[numbers.randrange(len(content))] ^= 1 << numbers.randrange(8)
        with suppress(MalformedTar):
            assert len(scanned(bytes(damaged), 4096)) <= 2
