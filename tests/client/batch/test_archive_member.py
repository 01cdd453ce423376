"""A member of an archive, of one that is no TAR, or breaks off."""

import io
import tarfile

import pytest

from forebay.protocol.batch.tar_entries import entry_header
from forebay.protocol.tar_header import END_OF_TAR, padding
from forebay_client import BatchKey, ClientError, InvalidRequest, ObjectNotFound, RangeNotSatisfiable
from forebay_client.batch.archive_member import read_member
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse

TAR = entry_header("a", 3, 0) + b"abc" + padding(3) + END_OF_TAR


class Archive:
    """Answers with a body. Implements BodyStream."""

    def __init__(self, body: bytes, most: int = 1 << 30) -> None:
        """`most`: bytes at once."""
        self._left, self._size, self._most = body, len(body), most
        self.is_closed = False

    def send(self, request: ObjectRequest) -> ObjectResponse:
        assert (request.method, request.key, request.is_streamed) == ("GET", "shard.tar", True)
        return ObjectResponse(200, {"content-length": str(self._size), "x-amz-request-id": "R7"}, stream=self)

    def readinto(self, buffer: memoryview, /) -> int:
        count = min(len(buffer), len(self._left), self._most)
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("start", "end", "content"), [(0, None, b"abc"), (1, 2, b"b"), (2, 90, b"c")])
def test_a_member_is_cut_as_an_object_is(start: int, end: int | None, content: bytes) -> None:
    archive = Archive(TAR)
    assert read_member(archive.send, "data", BatchKey("shard.tar", start, end, "a")) == content
    assert archive.is_closed


@pytest.mark.parametrize(
    ("body", "key", "error"),
    [
        (TAR, BatchKey("shard.tar", member="b"), ObjectNotFound),
        (TAR, BatchKey("shard.tar", 3, None, "a"), RangeNotSatisfiable),
        (TAR[:-600], BatchKey("shard.tar", member="b"), InvalidRequest),
        (b"no TAR", BatchKey("shard.tar", member="a"), InvalidRequest),
        (b"", BatchKey("shard.tar", member="a"), InvalidRequest),
    ],
)
def test_what_is_not_there_is_an_error(body: bytes, key: BatchKey, error: type[ClientError]) -> None:
    archive = Archive(body)
    with pytest.raises(error) as raised:
        read_member(archive.send, "data", key)
    assert raised.value.status == {ObjectNotFound: 404, RangeNotSatisfiable: 416, InvalidRequest: 400}[error]
    assert raised.value.request_id == "R7"
    assert archive.is_closed


CONTENTS = {
    "first": b"1",
    "folder/large": bytes(range(256)) * 2500,
    "p" * 90 + "/" + "n" * 90: b"two fields of a header",
    "l" * 150 + "/" + "m" * 180: b"a record of its own",
    "ü/é": b"no ASCII",
    "empty": b"",
    "last": b"9" * 700,
}


@pytest.mark.parametrize("most", [1 << 30, 100_000, 700])
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_found_whatever_wrote_the_archive(kind: int, most: int) -> None:
    """GNU tar writes long names as entries of their own."""
    file, written = io.BytesIO(), {}
    with tarfile.open(fileobj=file, mode="w", format=kind) as tar:
        for special in (tarfile.DIRTYPE, tarfile.SYMTYPE):
            info = tarfile.TarInfo(f"special{special!r}")
            info.type, info.linkname = special, "first"
            tar.addfile(info)
        for name, content in CONTENTS.items():
            if kind == tarfile.USTAR_FORMAT and len(name) > 200:
                continue  # ustar can't hold it
            info, written[name] = tarfile.TarInfo(name), content
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    for name, content in written.items():
        for start, end in ((0, None), (0, 5), (3, 600_000)):
            if start < len(content):
                found = read_member(
                    Archive(file.getvalue(), most).send, "data", BatchKey("shard.tar", start, end, name)
                )
                assert found == content[start:end]
    cut = file.getvalue()[: len(file.getvalue()) // 2]
    assert read_member(Archive(cut, most).send, "data", BatchKey("shard.tar", member="first")).tobytes() == b"1"
    with pytest.raises(InvalidRequest, match="cut short"):
        read_member(Archive(cut, most).send, "data", BatchKey("shard.tar", member="folder/large"))
