"""The count of a read's body, whatever the framing of the response."""

import pytest

from forebay.core.errors import OriginBroken, OriginError
from forebay.origin.reads.read_outcomes import BodySource, ReadBody
from harness.origin_client import some_of


class FakeBodySource:
    """An answer of given pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.closed = False
        self.skips_turns = False

    def take_whole(self, length: int) -> memoryview | None:  # it has its pieces for those who wait
        return None

    async def read_into(self, target: memoryview) -> int:
        piece = self.pieces.pop(0) if self.pieces else b""
        target[: len(piece)] = piece
        return len(piece)

    def skip_turns(self) -> None:
        self.skips_turns = True

    def close(self) -> None:
        self.closed = True


async def never(error: OriginError) -> BodySource:
    raise error


async def test_a_body_of_the_announced_length() -> None:
    body = ReadBody(FakeBodySource(b"ab", b"cd"), 4, never)
    assert [await some_of(body) for _ in range(4)] == [b"ab", b"cd", b"", b""]


@pytest.mark.parametrize(
    ("pieces", "good", "how"),
    [([b"ab"], 1, "shorter"), ([], 0, "shorter"), ([b"ab", b"cde"], 1, "longer"), ([b"ab", b"cd", b"e"], 2, "longer")],
)
async def test_a_body_of_another_length_is_broken(pieces: list[bytes], good: int, how: str) -> None:
    source = FakeBodySource(*pieces)
    body = ReadBody(source, 4, never)
    for piece in pieces[:good]:
        assert await some_of(body) == piece
    with pytest.raises(OriginBroken, match=how):
        await some_of(body)
    assert source.closed


async def test_an_empty_body() -> None:
    assert await some_of(ReadBody(FakeBodySource(), 0, never)) == b""
    with pytest.raises(OriginBroken, match="longer"):
        await some_of(ReadBody(FakeBodySource(b"x"), 0, never))


async def test_a_body_is_reopened_only_before_its_first_byte() -> None:
    async def again(_error: OriginError) -> BodySource:
        return FakeBodySource(b"abcd")

    assert await some_of(ReadBody(FakeBodySource(), 4, again)) == b"abcd"
    body = ReadBody(FakeBodySource(b"ab"), 4, again)
    assert await some_of(body) == b"ab"
    with pytest.raises(OriginBroken):
        await some_of(body)


@pytest.mark.parametrize("is_awaited", [True, False])
async def test_a_reopened_body_takes_no_turns_if_somebody_waits(is_awaited: bool) -> None:
    first, second = FakeBodySource(), FakeBodySource(b"abcd")

    async def again(_error: OriginError) -> BodySource:
        return second

    body = ReadBody(first, 4, again)
    if is_awaited:
        body.skip_turns()
    assert first.skips_turns is is_awaited
    assert await some_of(body) == b"abcd"
    assert second.skips_turns is is_awaited


async def test_a_body_that_is_waited_for_while_it_is_reopened() -> None:
    second = FakeBodySource(b"abcd")

    async def again(_error: OriginError) -> BodySource:
        body.skip_turns()
        return second

    body = ReadBody(FakeBodySource(), 4, again)
    assert await some_of(body) == b"abcd"
    assert second.skips_turns


async def test_all_of_a_body_is_read_and_the_body_closed() -> None:
    whole, broken = FakeBodySource(b"ab", b"cd"), FakeBodySource(b"ab")
    assert await ReadBody(whole, 4, never).read_all() == b"abcd"
    with pytest.raises(OriginBroken, match="shorter"):
        await ReadBody(broken, 4, never).read_all()
    assert whole.closed
    assert broken.closed
