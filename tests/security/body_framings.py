"""Requests whose end is in doubt, hundreds of them, each with another where a careless reader begins one.

    refused     no reader may take it: one refusal, and the connection ends
    absorbed    well-formed, and the smuggled request is its body: one answer, and no other

Why each is malformed: RFC 9112 sections 6 and 7. Heads that are odd by themselves: security.malformed_heads.
"""

from collections.abc import Iterator
from typing import Final

from security.malformed_heads import odd_heads
from security.smuggling_cases import SignedRequests, SmugglingCase, Wire, joined, lines_of, with_fields

_TAIL: Final = 100_000
"""No smuggled request is so long: a Content-Length that covers it all, and is never reached."""


def refused(base: SignedRequests) -> Iterator[SmugglingCase]:
    """All of them, odd heads too."""
    yield from _lengths(base)
    yield from _both(base)
    yield from _codings(base)
    yield from _chunks(base)
    yield from odd_heads(base)


def _lengths(base: SignedRequests) -> Iterator[SmugglingCase]:
    for value in (
        *(
            b"-1",
            b"+5",
            b"0x5",
            b"5.0",
            b"1e1",
            b"",
            b" ",
            b"5 5",
            b"5,6",
            b"5, 5",
            b"5,",
            b",5",
            b"5;",
            b"\x0b5",
            b"5\x0c",
        ),
        *(b"\xd9\xa5", b"\xb2", b"5_0", b"9" * 30, b"18446744073709551621", b"-0", b"0 0", b"five", b"0\x00", b"'5'"),
    ):
        for request in base:
            yield SmugglingCase(f"length {value!r} {request.method}", with_fields(request, b"Content-Length: " + value))
    for first, second in ((b"0", b"5"), (b"5", b"0"), (b"0", b"%d" % _TAIL), (b"%d" % _TAIL, b"0"), (b"5", b"05")):
        for request in base:
            fields = b"Content-Length: " + first, b"content-length: " + second
            yield SmugglingCase(f"two lengths {first!r} {second!r} {request.method}", with_fields(request, *fields))
    for name in (
        b"Content-Length ",
        b"Content-Length\t",
        b" Content-Length",
        b"Content-Length\x00",
        b"Content-Length\x0b",
    ):
        yield SmugglingCase(f"length named {name!r}", with_fields(base.write, name + b": %d" % _TAIL))


def _both(base: SignedRequests) -> Iterator[SmugglingCase]:
    """A length and chunked framing: whichever a reader heeds, another heeds the other."""
    for coding in (b"Transfer-Encoding: chunked", b"transfer-encoding:chunked", b"Transfer-Encoding: \tChunked"):
        for length in (b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: %d" % _TAIL):
            for request in base:
                for fields in ((coding, length), (length, coding)):
                    name = f"both {fields} {request.method}"
                    yield SmugglingCase(name, with_fields(request, *fields, behind=b"0\r\n\r\n"))


def _codings(base: SignedRequests) -> Iterator[SmugglingCase]:
    """Transfer codings that are not chunked, not chunked alone and last, or not spelt so that all agree."""
    for value in (
        *(
            b"identity",
            b"gzip",
            b"cow",
            b"xchunked",
            b"chunkedx",
            b"chunked, identity",
            b"chunked, gzip",
            b"chunked,chunked",
        ),
        *(
            b"",
            b",",
            b'"chunked"',
            b"chunked;q=1",
            b"chunked\x00",
            b"\x0bchunked",
            b"chunk ed",
            b"chunked\x0c",
            b"\xa0chunked",
        ),
        *(b"chunked\x85", b"[chunked]", b"chun\xe7ked", b"'chunked'", b"ch\xc5\xabnked"),
    ):
        yield SmugglingCase(
            f"coding {value!r}", with_fields(base.write, b"Transfer-Encoding: " + value, behind=b"0\r\n\r\n")
        )
        fields = b"Transfer-Encoding: " + value, b"Content-Length: 5"
        yield SmugglingCase(f"coding {value!r} and length", with_fields(base.write, *fields, behind=b"0\r\n\r\n"))
    for name in (b"Transfer-Encoding ", b"Transfer-Encoding\t", b" Transfer-Encoding", b"Transfer-Encoding\x00"):
        fields = name + b": chunked", b"Content-Length: 5"
        yield SmugglingCase(f"coding named {name!r}", with_fields(base.write, *fields, behind=b"0\r\n\r\n"))
    twice = b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"
    yield SmugglingCase("chunked then identity", with_fields(base.write, *twice, behind=b"0\r\n\r\n"))
    yield SmugglingCase("identity then chunked", with_fields(base.write, *reversed(twice), behind=b"0\r\n\r\n"))
    old = [line.replace(b"HTTP/1.1", b"HTTP/1.0") for line in lines_of(base.write)]
    kept = [b"Transfer-Encoding: chunked", b"Content-Length: 5", b"Connection: keep-alive"]
    yield SmugglingCase("chunked in 1.0", joined([*old, *kept], b"0\r\n\r\n"))


def _chunks(base: SignedRequests) -> Iterator[SmugglingCase]:
    end = b"\r\n0\r\n\r\n"
    for size in (
        *(
            b"-5",
            b"+5",
            b"0x5",
            b" 5",
            b"5 5",
            b"",
            b"g",
            b"5_",
            b"\xd9\xa5",
            b"5\x00",
            b"5,5",
            b"5.0",
            b"F" * 17,
            b"5\x0b",
        ),
        *(
            b"5\n",
            b"5\r",
            b"5;a\n",
            b"5;a\rb",
            b"5;\x00",
            b"\t5",
            b"5\r\r",
            b"0\n",
            b"5;a=b\n0",
            b"1" + b"0" * 16 + b"5",
            b"\n5",
        ),
    ):
        wire = size + b"\r\nhello" + end
        yield SmugglingCase(f"chunk size {size!r}", with_fields(base.write, b"Transfer-Encoding: chunked", behind=wire))
    for body in (
        *(
            b"5\r\nhello\n0\r\n\r\n",
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhelloXX0\r\n\r\n",
            b"5\r\nhello\r0\r\n\r\n",
            b"5\nhello\r\n0\r\n\r\n",
        ),
        *(
            b"5\r\nhelloo\r\n0\r\n\r\n",
            b"0\nX: y\r\n\r\n",
            b"0\r\nX y\r\n\r\n",
            b"0\r\n : y\r\n\r\n",
            b"0\r\nX : y\r\n\r\n",
        ),
        *(b"5\r\nhello\r\n0\n\n", b"0\r\nX: \x00\r\n\r\n", b"0\r\n\n", b"0\r\nX: a\n\r\n"),
    ):
        yield SmugglingCase(f"chunks {body!r}", with_fields(base.write, b"Transfer-Encoding: chunked", behind=body))
    trailers = b"0\r\n" + b"".join(b"x-%d: y\r\n" % number for number in range(5000)) + b"\r\n"
    yield SmugglingCase(
        "thousands of trailers", with_fields(base.write, b"Transfer-Encoding: chunked", behind=trailers)
    )


def absorbed(base: SignedRequests) -> Iterator[SmugglingCase]:
    """Well-formed requests whose body is the smuggled one."""
    for request in (base.read, base.write):
        for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"):
            lines = lines_of(request)
            # Unless it is its own method, it is wrongly signed: a refusal must not leave the body behind.
            lines[0] = lines[0].replace(request.method.encode(), method.encode(), 1)
            for extra in ((), (b"Expect: 100-continue",), (b"Connection: keep-alive",)):
                yield SmugglingCase(f"body of {method} as {request.method} {extra}", _announced([*lines, *extra], 0))
        yield SmugglingCase(f"half a body of {request.method}", _announced(lines_of(request), 5))
        head = b"\r\n".join([*lines_of(request), b"Transfer-Encoding: chunked"]) + b"\r\n\r\n"
        yield SmugglingCase(f"chunk of {request.method}", _chunked(head, 0, b"\r\n0\r\n\r\n"))
        yield SmugglingCase(f"chunk of {request.method} without end", _chunked(head, 5, b""))
    # Well-formed as far as it goes, and read over as it comes: how long a body may stall is its bound.
    for end in (b"\r\nhello\r\n0\r\n\r\n", b""):
        long = b"5;" + b"a" * 70_000 + end
        yield SmugglingCase(
            f"long chunk extension {end!r}", with_fields(base.write, b"Transfer-Encoding: chunked", behind=long)
        )


def _announced(lines: list[bytes], more: int) -> Wire:
    """The smuggled request as a body, and `more` bytes that never come."""

    def wire(smuggled: bytes) -> bytes:
        return b"\r\n".join([*lines, b"Content-Length: %d" % (len(smuggled) + more)]) + b"\r\n\r\n" + smuggled

    return wire


def _chunked(head: bytes, more: int, end: bytes) -> Wire:
    return lambda smuggled: head + b"%x\r\n" % (len(smuggled) + more) + smuggled + end
