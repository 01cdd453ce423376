"""A member of an archive that is no TAR, or breaks off."""

import pytest

from forebay.protocol.batch.tar_entries import entry_header
from forebay.protocol.tar_header import END_OF_TAR, padding
from forebay_client import BatchKey, InvalidRequest, ObjectNotFound, RangeNotSatisfiable
from forebay_client.batch.archive_member import read_member
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse

TAR = entry_header("a", 3, 0) + b"abc" + padding(3) + END_OF_TAR


class Archive:
    """Answers with a body. Implements BodyStream."""

    def __init__(self, body: bytes) -> None:
        self._left = body
        self.is_closed = False

    def send(self, request: ObjectRequest) -> ObjectResponse:
        assert (request.method, request.key, request.is_streamed) == ("GET", "shard.tar", True)
        return ObjectResponse(200, {}, stream=self)

    def readinto(self, buffer: memoryview, /) -> int:
        count = min(len(buffer), len(self._left))
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
    ],
)
def test_what_is_not_there_is_an_error(body: bytes, key: BatchKey, error: type[Exception]) -> None:
    archive = Archive(body)
    with pytest.raises(error):
        read_member(archive.send, "data", key)
    assert archive.is_closed
