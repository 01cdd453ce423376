"""Bodies in HTTP's chunked coding, however they are cut between reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import MalformedHttp
from forebay.origin.http.chunked_decoder import ChunkedDecoder
from forebay.origin.http.response_head import MAX_HEAD


def decoded(received: bytes, step: int) -> tuple[bytes, int, bool]:
    body, used, ended = b"", 0, ChunkedDecoder()
    for start in range(0, len(received), step):
        more, count = ended.decode(memoryview(received)[start : start + step])
        body += more
        used += count
    return body, used, ended.ended


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.integers(1, 30), st.booleans())
def test_cuts_between_reads_make_no_difference(parts: list[bytes], step: int, trailing: bool) -> None:
    framed = b"".join(b"%X;ext=1\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n"
    framed += b"x-trailer: 1\r\n\r\n" if trailing else b"\r\n"
    assert decoded(framed, step) == (b"".join(parts), len(framed), True)
    if step < len(framed):
        assert decoded(framed[:-1], step)[2] is False


def test_bytes_after_the_body_are_not_used() -> None:
    assert decoded(b"2\r\nab\r\n0\r\n\r\nHTTP/1.1 200", 100) == (b"ab", 12, True)


@pytest.mark.parametrize(
    "received",
    [b"2\nab", b"2\r\nabc\r\n", b"-1\r\n", b"0x2\r\n", b"\r\n", b"zz\r\n", b"2\r\nab\n", b"2" * (MAX_HEAD + 1)],
)
def test_a_malformed_body_is_refused(received: bytes) -> None:
    for step in (1000, 1):
        with pytest.raises(MalformedHttp):
            decoded(received, step)
