"""WebDataset's conventions."""

import io
import tarfile

import pytest

from forebay_client.torch.shard_samples import expand_braces, shard_samples, split_member


class Counted(io.BytesIO):
    """A file that counts the bytes that are read."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.count += len(content)
        return content


def shard(*members: tuple[str, bytes]) -> Counted:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("a.dir/x.y")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return Counted(buffer.getvalue())


MEMBERS = [(f"{number:03}.{kind}", bytes([number]) * 20_000) for number in range(5) for kind in ("JPG", "cls.txt")]


def test_members_of_one_stem_are_a_sample() -> None:
    samples = list(shard_samples(shard(*MEMBERS), "s3://set/a.tar"))
    assert [sample["__key__"] for sample in samples] == ["000", "001", "002", "003", "004"]
    assert samples[2] == {
        "__key__": "002",
        "__url__": "s3://set/a.tar",
        "jpg": bytes([2]) * 20_000,
        "cls.txt": bytes([2]) * 20_000,
    }


def test_skipped_samples_are_not_read() -> None:
    file = shard(*MEMBERS)
    assert [sample["__key__"] for sample in shard_samples(file, "", skip=4)] == ["004"]
    assert file.count < 100_000
    assert list(shard_samples(shard(*MEMBERS), "", skip=9)) == []


def test_an_empty_shard_has_no_sample() -> None:
    assert list(shard_samples(shard(), "")) == []


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("0001.jpg", ("0001", "jpg")),
        ("a/b.c/0001.seg.PNG", ("a/b.c/0001", "seg.png")),
        ("readme", None),
        (".hidden.jpg", None),
        ("__MACOSX/a.jpg", None),
        ("a.", None),
    ],
)
def test_a_name_is_a_key_and_an_extension(name: str, split: tuple[str, str] | None) -> None:
    assert split_member(name) == split


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("a-{08..11}.tar", ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]),
        ("{x,y}/{1..2}", ["x/1", "x/2", "y/1", "y/2"]),
        ("a-{11..08}.tar", ["a-11.tar", "a-10.tar", "a-09.tar", "a-08.tar"]),
    ],
)
def test_braces_stand_for_names(pattern: str, names: list[str]) -> None:
    assert expand_braces(pattern) == names
