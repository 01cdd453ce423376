"""A sample as a file."""

import io
import pickle

import pytest

from forebay_client.torch.sample_file import SampleFile

CONTENT = bytes(range(200))


def made() -> SampleFile:
    return SampleFile("bucket", "key", memoryview(CONTENT), 7)


def test_it_reads_as_a_file_of_the_same_bytes() -> None:
    sample, file = made(), io.BytesIO(CONTENT)
    for step in range(40):
        assert sample.read(step) == file.read(step)
        assert sample.seek(-step % 9, io.SEEK_CUR) == file.seek(-step % 9, io.SEEK_CUR)
        assert sample.tell() == file.tell()
        assert sample.seek(-step, io.SEEK_END) == file.seek(-step, io.SEEK_END)
        assert sample.read() == file.read()
        assert sample.read(3) == file.read(3) == b""
        assert sample.seek(step * 7) == file.seek(step * 7)
        ours, theirs = bytearray(11), bytearray(11)
        assert (sample.readinto(ours), ours) == (file.readinto(theirs), theirs)


def test_behind_the_end_there_is_nothing() -> None:
    sample = made()
    assert sample.seek(500) == 500
    assert (sample.read(), sample.read(5), sample.readinto(bytearray(3)), sample.tell()) == (b"", b"", 0, 500)


def test_lines_are_those_of_a_file() -> None:
    sample = SampleFile("b", "k", memoryview(b"one\ntwo\n\nfour"))
    assert sample.readlines() == [b"one\n", b"two\n", b"\n", b"four"]


def test_a_bad_seek_is_refused() -> None:
    for arguments in ((-1, io.SEEK_SET), (0, 7)):
        with pytest.raises(ValueError, match=r"[sS]eek"):
            made().seek(*arguments)


def test_it_pickles_with_its_position() -> None:
    sample = made()
    sample.read(5)
    copied = pickle.loads(pickle.dumps(sample))
    assert (copied.bucket, copied.key, copied.label, copied.size) == ("bucket", "key", 7, 200)
    assert copied.read(2) == CONTENT[5:7]


def test_the_view_is_no_copy() -> None:
    content = bytearray(b"abc")
    sample = SampleFile("b", "k", memoryview(content))
    content[0] = ord("z")
    assert bytes(sample.view) == b"zbc"
