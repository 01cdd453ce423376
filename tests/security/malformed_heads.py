"""Heads that no two readers need agree on: line ends, folds, hosts, request lines, names, sizes.

RFC 9112 sections 2.2, 3 and 5, RFC 9110 section 5. See security.smuggling_cases for how a case is made.
"""

from collections.abc import Iterator

from security.smuggling_cases import SignedRequests, SmugglingCase, before, joined, lines_of, with_fields


def odd_heads(base: SignedRequests) -> Iterator[SmugglingCase]:
    """All of them: no reader may take one."""
    yield from _line_ends(base)
    yield from _folds(base)
    yield from _hosts(base)
    yield from _request_lines(base)
    yield from _names(base)
    yield from _huge(base)


def _line_ends(base: SignedRequests) -> Iterator[SmugglingCase]:
    for request in base:
        head = request.wire
        yield SmugglingCase(f"bare LF everywhere {request.method}", before(head.replace(b"\r\n", b"\n")))
        count = head.count(b"\r\n")
        for end in (b"\n", b"\r", b"\r\r\n", b"\n\r"):
            for at in range(count):
                parts = head.split(b"\r\n")
                wire = b"\r\n".join(parts[: at + 1]) + end + b"\r\n".join(parts[at + 1 :])
                yield SmugglingCase(f"line {at} of {request.method} ends {end!r}", before(wire))
    for inner in (b"\n", b"\r", b"\r\x00\n", b"\x00", b"\x01", b"\x08", b"\x0b", b"\x1f", b"\x7f", b"\nX-Injected: y"):
        yield SmugglingCase(f"{inner!r} in a value", with_fields(base.read, b"X-A: a" + inner + b"b"))
        yield SmugglingCase(f"{inner!r} before a value", with_fields(base.read, b"X-A:" + inner + b"b"))


def _folds(base: SignedRequests) -> Iterator[SmugglingCase]:
    for blank in (b" ", b"\t", b"  \t"):
        for request in base:
            yield SmugglingCase(f"fold {blank!r} {request.method}", with_fields(request, b"X-A: a\r\n" + blank + b"b"))
            length = b"Content-Length:\r\n" + blank + b"5"
            yield SmugglingCase(f"folded length {blank!r} {request.method}", with_fields(request, length))
            coding = b"Transfer-Encoding:\r\n" + blank + b"chunked"
            yield SmugglingCase(
                f"folded coding {blank!r} {request.method}", with_fields(request, coding, behind=b"0\r\n\r\n")
            )
        lines = lines_of(base.read)
        yield SmugglingCase(f"fold first {blank!r}", joined([lines[0], blank + b"X-A: a", *lines[1:]]))
        yield SmugglingCase(
            f"folded host {blank!r}", joined([lines[0], b"Host:\r\n" + blank + lines[1][6:], *lines[2:]])
        )


def _hosts(base: SignedRequests) -> Iterator[SmugglingCase]:
    for request in base:
        lines = lines_of(request)
        yield SmugglingCase(f"the same host twice {request.method}", with_fields(request, lines[1]))
        yield SmugglingCase(f"another host {request.method}", with_fields(request, b"Host: elsewhere.test"))
        yield SmugglingCase(
            f"another host first {request.method}", joined([lines[0], b"host: elsewhere.test", *lines[1:]])
        )
        yield SmugglingCase(f"no host {request.method}", joined([lines[0], *lines[2:]]))
    lines = lines_of(base.read)
    for host in (
        b"",
        b"a b",
        b"a@b",
        b"a/b",
        b"a?b",
        b"a#b",
        b"a\\b",
        b"a,b",
        b"a:b:c",
        b"a:1:2",
        b"a:1:1:1",
        b"[::1",
        b"a\tb",
        b"\xe4",
        b"http://a",
    ):
        yield SmugglingCase(f"host {host!r}", joined([lines[0], b"Host: " + host, *lines[2:]]))


def _request_lines(base: SignedRequests) -> Iterator[SmugglingCase]:
    _, *rest = lines_of(base.read)
    host = rest[0][6:]
    for line in (
        *(b"GET http://x%b/bucket/open/hit HTTP/1.1" % host, b"GET https://elsewhere.test/bucket/open/hit HTTP/1.1"),
        *(b"GET http://%b HTTP/1.1" % host, b"GET ftp://%b/bucket/open/hit HTTP/1.1" % host),
        *(b"GET http://a@%b/bucket/open/hit HTTP/1.1" % host, b"GET http://%b:1/bucket HTTP/1.1" % host),
        *(b"GET bucket/open/hit HTTP/1.1", b"GET * HTTP/1.1", b"OPTIONS * HTTP/1.1", b"HEAD http:///bucket HTTP/1.1"),
        *(
            b"CONNECT %b HTTP/1.1" % host,
            b"CONNECT /bucket/open/hit HTTP/1.1",
            b"PRI * HTTP/2.0",
            b"GET /bucket/open/hit",
        ),
        *(b"GET /bucket/open/hit HTTP/0.9", b"GET /bucket/open/hit HTTP/2.0", b"GET /bucket/open/hit HTTP/1.10"),
        *(b"GET /bucket/open/hit HTTP/1", b"GET /bucket/open/hit http/1.1", b"GET /bucket/open/hit HTTP/1.1 x"),
        *(b"GET\t/bucket/open/hit HTTP/1.1", b"GET /bucket/open/hit\tHTTP/1.1", b"GET /bucket/open/hit\x0b HTTP/1.1"),
        *(b" GET /bucket/open/hit HTTP/1.1", b"GET /bucket/open/hit HTTP/1.1 ", b"GET /bucket/open/hit HTTP/ 1.1"),
        *(
            b"GET /bucket/open/ hit HTTP/1.1",
            b"GET /bucket/open/hit\x00 HTTP/1.1",
            b"GET http:/bucket/open/hit HTTP/1.1",
        ),
        *(
            b"G\x00T /bucket/open/hit HTTP/1.1",
            b"",
            b"GET",
            b"GET /bucket/open/hit HTTP/1.1\r",
            b"GET /bucket/ HTTP/-1.1",
        ),
        *(b"G(T /bucket/open/hit HTTP/1.1", b"GET: /bucket/open/hit HTTP/1.1", b"GET /bucket/open/hit HTTP/1.1\x00"),
        *(
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET ?/bucket HTTP/1.1",
            b"GET \\bucket\\open\\hit HTTP/1.1",
        ),
    ):
        yield SmugglingCase(f"request line {line!r}", joined([line, *rest]))


def _names(base: SignedRequests) -> Iterator[SmugglingCase]:
    for odd in b'()<>@,;\\"/[]?={}\x00\x01\x08\x0b\x0c\x1f\x7f\x80\xe4\xff':
        yield SmugglingCase(f"{bytes([odd])!r} in a name", with_fields(base.read, b"X" + bytes([odd]) + b"A: b"))
    for field in (
        b": b",
        b"X-A",
        b"X-A b",
        b"X-A : b",
        b"X-A\t: b",
        b" X-A: b",
        b"X A: b",
        b"\x00: b",
        b"X-A=b",
        b"X-\xe9: b",
    ):
        for request in base:
            yield SmugglingCase(f"field {field!r} {request.method}", with_fields(request, field))


def _huge(base: SignedRequests) -> Iterator[SmugglingCase]:
    for size in (17 << 10, 64 << 10, 300 << 10):
        yield SmugglingCase(f"a value of {size}", with_fields(base.read, b"X-A: " + b"a" * size))
        yield SmugglingCase(f"a name of {size}", with_fields(base.read, b"X" * size + b": a"))
        first, *rest = lines_of(base.read)
        yield SmugglingCase(f"a target of {size}", joined([first.replace(b"hit", b"h" * size), *rest]))
        yield SmugglingCase(f"a method of {size}", joined([b"G" * size + first, *rest]))
    for count in (2_000, 20_000):
        fields = [b"X-%d: a" % number for number in range(count)]
        yield SmugglingCase(f"{count} fields", with_fields(base.read, *fields))
