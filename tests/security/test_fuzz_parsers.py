"""Fuzz: two parsers on one connection agree, or the fast one leaves it.

Whatever the fast lane's parser takes for a request, both of aiohttp's take for the same one, to the byte, with nothing
left over; and what the full lane refuses of it, the fast lane never had.
"""

import random
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.server.fastpath.request_head import HOST
from forebay.server.http.request_framing import RequestBoundary
from security.head_parsers import ParsedHead, Reader, connection_parsers, head_parsers, parse_fast
from security.keyrings import NOW, OWNER
from security.mutants import damaged
from security.scale import SCALE, fuzzed
from security.signers import SIGNERS

_HEAD: Final = b"GET /bucket/key HTTP/1.1\r\nHost: h:9000\r\nx-amz-date: 20270115T080000Z\r\n\r\n"
_lines: Final = st.lists(
    st.sampled_from(
        (
            *(
                b"GET ",
                b"HEAD ",
                b"PUT ",
                b"/bucket/key",
                b"/",
                b"?a=b",
                b" HTTP/1.1",
                b" HTTP/1.0",
                b"\r\n",
                b"\n",
                b"\r",
                b" ",
                b"\t",
            ),
            *(
                b"Host: h",
                b"Host:h",
                b"host: other",
                b"Range: bytes=0-1",
                b"X: y",
                b"X:",
                b":",
                b"Content-Length: 0",
                b"Content-Length: 5",
            ),
            *(
                b"Transfer-Encoding: chunked",
                b"Connection: keep-alive",
                b"Connection: close",
                b"Expect: 100-continue",
                b"Upgrade: h2c",
            ),
            *(
                b"x-amz-date: 20270115T080000Z",
                b"\x00",
                b"\xff",
                b"\xc3\xa9",
                b"a" * 9000,
                b"\r\n\r\n",
                b"\x0b",
                b"\x7f",
                b"#",
                b"%2F",
            ),
        )
    ),
    max_size=14,
).map(b"".join)
_wires: Final = st.one_of(
    _lines,
    _lines.map(lambda middle: b"GET /bucket/key HTTP/1.1\r\nHost: h\r\n" + middle + b"\r\n\r\n"),
    st.tuples(st.binary(max_size=6), st.integers(0, len(_HEAD))).map(
        lambda pair: _HEAD[: pair[1]] + pair[0] + _HEAD[pair[1] :]
    ),
    st.tuples(st.integers(0, len(_HEAD)), st.integers(0, 6)).map(
        lambda cut: _HEAD[: cut[0]] + _HEAD[cut[0] + cut[1] :]
    ),
)


@pytest.fixture(scope="module")
def parsers() -> Iterator[dict[str, Reader]]:
    with head_parsers() as found:
        yield dict(found)


def _fields(heard: ParsedHead) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in heard.headers.items()]


def _agree(wire: bytes, parsers: dict[str, Reader]) -> bool:
    taken = parse_fast(wire)
    if taken is None:
        return False
    for name in ("c", "python"):
        heard = parsers[name](wire)
        assert heard is not None, (name, wire)
        assert (heard.method, heard.raw_target) == (taken.method, taken.raw_target), (name, wire)
        # aiohttp spells names that it knows its own way.
        assert _fields(heard) == _fields(taken), (name, wire)
    assert HOST.fullmatch(taken.headers["Host"])
    boundary = RequestBoundary()
    boundary.follow(wire)
    assert boundary.is_clean, wire  # nothing of it can be the beginning of another
    return True


def test_the_parsers_agree(parsers: dict[str, Reader]) -> None:
    @given(_wires)
    @fuzzed(1500)
    def example(wire: bytes) -> None:
        _agree(wire, parsers)

    example()


def test_they_agree_on_damaged_requests(parsers: dict[str, Reader]) -> None:
    """Real heads, as signed, with a byte or three changed: most of what is left whole is taken."""
    rng, taken = random.Random(11), 0
    heads = [
        sign(OWNER, method, "/bucket/a%20key?x-id=GetObject", [("Range", "bytes=0-9")], b"", NOW, None).wire
        for sign in SIGNERS.values()
        for method in ("GET", "HEAD")
    ]
    for _ in range(4000 * SCALE):
        taken += _agree(damaged(rng.choice(heads), rng), parsers)
    assert taken > 400 * SCALE


def test_the_boundary_is_never_wrong() -> None:
    """Where it says that a request begins, both parsers begin one, unless they have given the connection up."""
    # Without a Host: as the rest of a head that has one it must not be refused for having two.
    following = b"GET /following HTTP/1.1\r\nX: y\r\n\r\n"
    bodied = (b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % length for length in (0, 1, 5, 40))
    pieces = st.one_of(
        _wires, st.sampled_from((*bodied, b"hello", b"x", _HEAD, b"0\r\n\r\n", following, _HEAD[:-4], _HEAD[:40]))
    )

    with connection_parsers() as parsers:

        @given(st.lists(pieces, min_size=1, max_size=5))
        @fuzzed(1500)
        def example(wires: list[bytes]) -> None:
            boundary = RequestBoundary()
            for wire in wires:
                boundary.follow(wire)
            if not boundary.is_clean:
                return
            for name, read in parsers.items():
                without, found = read(wires), read([*wires, following])
                if without is not None and found is not None:
                    assert [each.raw_target for each in found[len(without) :]] == ["/following"], name

        example()
