"""The prefix in a body, and what is refused."""

from collections.abc import AsyncIterator

import pytest

from forebay.core.errors import S3Error
from forebay.core.names import MAX_KEY_BYTES
from forebay.request.prefix_body import read_prefix

LONGEST = b"k" * MAX_KEY_BYTES


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for byte in body:
        yield bytes((byte,))


@pytest.mark.parametrize(
    ("body", "prefix"),
    [
        (b"", ""),
        (b"run-7/", "run-7/"),
        ("zwölf/".encode(), "zwölf/"),
        (b"run-7/\n", "run-7/"),
        (b"run-7/\r\n", "run-7/"),
        (b"\n", ""),
        (b"run-7\r", "run-7\r"),
        (b"two\nlines\n\n", "two\nlines\n"),
        (LONGEST + b"\r\n", LONGEST.decode()),
    ],
)
async def test_one_line_end_is_not_part_of_the_prefix(body: bytes, prefix: str) -> None:
    assert await read_prefix(pieces(body)) == prefix


@pytest.mark.parametrize(
    ("body", "reason"), [(b"\xff", "in UTF-8"), (LONGEST + b"k", "at most 1024"), (LONGEST * 3, "at most 1024")]
)
async def test_a_malformed_prefix_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(S3Error, match=reason) as caught:
        await read_prefix(pieces(body))
    assert caught.value.code == "InvalidArgument"
