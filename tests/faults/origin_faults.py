"""The faults of an origin, as data: a name, what the origin does, and which of its own refusals a client may see.

A fault is made of the fake's actions (harness.fake.actions). Where none fits, `Rewrite` changes the bytes of the honest
response. An honest origin stands in the table as well: with it every operation must succeed, or the matrix can't fail.
"""

import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from harness.fake import actions
from harness.fake.actions import Action, Rewrite
from harness.fake.errors import error_document
from harness.fake.gate import Gate
from harness.fake.response_bytes import ResponseBytes

CANARY: Final = "canary"
"""What redirects point to. Nobody may follow them."""
WRONG_ETAG: Final = '"00000000000000000000000000000bad"'

Change = Callable[[ResponseBytes], ResponseBytes]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of failure. `behaviour` completes the sentence "the origin ..."."""

    name: str
    family: str
    behaviour: str
    actions: Callable[[Gate], tuple[Action, ...]]
    """For one cell; the gate opens when the origin heals."""
    refusals: frozenset[int] = frozenset()
    """Statuses of the origin's own that a client may get."""
    harmless: bool = False
    """Whether every operation must succeed as with an honest origin."""
    refuses_connections: bool = False
    """The whole origin, for everybody: a health check under this fault can only be a hit."""


def _always(*found: Action) -> Callable[[Gate], tuple[Action, ...]]:
    return lambda _gate: found


def _rewrite(change: Change) -> Callable[[Gate], tuple[Action, ...]]:
    return _always(Rewrite(change))


def _success(change: Change) -> Change:
    """The change, for successes alone: an honest refusal stays what it is."""
    return lambda response: change(response) if response.status_line.split(" ")[1] < "300" else response


def _status(response: ResponseBytes, line: str) -> ResponseBytes:
    return replace(response, status_line=f"HTTP/1.1 {line}")


def _set(response: ResponseBytes, name: str, value: str) -> ResponseBytes:
    return response.without(name.lower()).adding((name, value))


def _length(difference: int) -> Change:
    """Content-Length off by so much, and the connection closed."""

    def change(response: ResponseBytes) -> ResponseBytes:
        length = int(response.header("Content-Length") or 0) + difference
        return replace(response.replacing("Content-Length", str(max(0, length))), ending="close")

    return change


def _shortened(by: int, *, size: bool = False) -> Change:
    """A body that ends `by` bytes early, and a Content-Length that agrees. `size`: the whole head says so, as if the
    object were shorter under the same ETag."""

    def change(response: ResponseBytes) -> ResponseBytes:
        length = int(response.header("Content-Length") or 0)
        kept = max(0, length - by)
        found = response.header("Content-Range")
        short = replace(response, body=response.body[:kept])
        if size and found is not None:
            span, _, total = found.rpartition("/")
            first, _, last = span.removeprefix("bytes ").partition("-")
            if int(last) < int(total) - by:
                return response.replacing("Content-Range", f"{span}/{int(total) - by}")
            last = str(int(last) - (int(last) - (int(total) - by) + 1))
            kept = int(last) - int(first) + 1
            short = replace(
                response.replacing("Content-Range", f"bytes {first}-{last}/{int(total) - by}"),
                body=response.body[:kept],
            )
        return short.replacing("Content-Length", str(kept))

    return change


def _content_range(edit: Callable[[int, int, int], str]) -> Change:
    def change(response: ResponseBytes) -> ResponseBytes:
        found = response.header("Content-Range")
        if found is None:
            return response
        span, _, total = found.removeprefix("bytes ").partition("/")
        first, _, last = span.partition("-")
        return response.replacing("Content-Range", edit(int(first), int(last), int(total)))

    return change


def _chunked(framed: Callable[[bytes], bytes]) -> Change:
    def change(response: ResponseBytes) -> ResponseBytes:
        if response.method == "HEAD" or not response.body:
            return response
        plain = response.without("content-length").adding(("Transfer-Encoding", "chunked"))
        return replace(plain, body=framed(response.body), ending="close")

    return change


def _whole_as_range(response: ResponseBytes) -> ResponseBytes:
    if not response.status_line.startswith("HTTP/1.1 200") or not response.body:
        return response
    size = len(response.body)
    return _status(response, "206 Partial Content").adding(("Content-Range", f"bytes 0-{size - 1}/{size}"))


def _empty(response: ResponseBytes) -> ResponseBytes:
    """200 without a byte, in place of any answer to a read; the ETag stays."""
    if response.method not in {"GET", "HEAD"}:
        return response
    bare = response.without("content-length", "content-range", "transfer-encoding")
    return replace(_status(bare, "200 OK").adding(("Content-Length", "0")), body=b"")


def _not_modified(etag: str | None) -> Change:
    def change(response: ResponseBytes) -> ResponseBytes:
        bare = response.without("content-length", "content-range")
        bare = replace(_status(bare, "304 Not Modified"), body=b"")
        return bare if etag is None else bare.replacing("ETag", etag)

    return change


def _document(xml: bytes) -> Change:
    """200 with this body in place of what was to be said."""

    def change(response: ResponseBytes) -> ResponseBytes:
        bare = response.without("content-length", "content-type", "content-range", "etag")
        said = _status(bare, "200 OK").adding(("Content-Type", "application/xml"), ("Content-Length", str(len(xml))))
        return replace(said, body=b"" if response.method == "HEAD" else xml)

    return change


def _duplicated(*, late: bool) -> Change:
    def change(response: ResponseBytes) -> ResponseBytes:
        again = response.head + response.body
        return replace(response, late=again) if late else replace(response, body=response.body + again)

    return change


def _truncated_gzip(response: ResponseBytes) -> ResponseBytes:
    if not response.body:
        return response
    body = gzip.compress(response.body, mtime=0)[:-9]
    coded = _set(response, "Content-Encoding", "gzip").replacing("Content-Length", str(len(body)))
    return replace(coded, body=body)


_ERROR: Final = error_document("InternalError", "We encountered an internal error. Please try again.", "/")
_CODES: Final = {
    400: "InvalidRequest", 403: "AccessDenied", 404: "NoSuchKey", 405: "MethodNotAllowed", 409: "OperationAborted",
    412: "PreconditionFailed", 416: "InvalidRange", 429: "TooManyRequests", 500: "InternalError",
    501: "NotImplemented", 502: "BadGateway", 503: "SlowDown", 504: "GatewayTimeout",
}  # fmt: skip


def _errors() -> Iterable[Fault]:
    for status, code in _CODES.items():
        found = actions.Respond(status, code)
        yield Fault(
            f"{status}", "refusals", f"answers {status} {code} and performs nothing", _always(found),
            frozenset({status}),
        )  # fmt: skip
    for status in (403, 404, 412, 500, 503):
        yield Fault(
            f"{status} without a document", "refusals", f"answers {status} without a body",
            _always(actions.Respond(status)), frozenset({status}),
        )  # fmt: skip
    for status in (301, 302, 307):
        yield Fault(
            f"{status}", "refusals", f"redirects ({status})",
            _always(actions.Redirect(f"/{CANARY}", status)), frozenset({status}),
        )  # fmt: skip


def _broken_error(response: ResponseBytes) -> ResponseBytes:
    """500 whose document breaks off."""
    bare = response.without("content-length", "content-range", "etag", "content-type")
    announced = _status(bare, "500 Internal Server Error").adding(("Content-Length", str(len(_ERROR))))
    return replace(announced, body=b"" if response.method == "HEAD" else _ERROR[:40], ending="close")


def _large_error(response: ResponseBytes) -> ResponseBytes:
    bare = response.without("content-length", "content-range", "etag", "content-type")
    body = b"<html>" + b"x" * 200_000
    said = _status(bare, "403 Forbidden").adding(("Content-Type", "text/html"), ("Content-Length", str(len(body))))
    return replace(said, body=b"" if response.method == "HEAD" else body)


def _slow_body(response: ResponseBytes) -> ResponseBytes:
    return replace(response, piece=max(1, len(response.head + response.body) // 6), interval=50.0)


FAULTS: Final[tuple[Fault, ...]] = (
    Fault("none", "control", "is honest", _always(), harmless=True),
    # connections
    Fault("refused", "connections", "refuses connections, and closes those it has", _always(actions.Drop()),
          refuses_connections=True),
    Fault("dropped", "connections", "closes instead of an answer", _always(actions.Drop())),
    Fault("reset", "connections", "resets instead of an answer", _always(actions.Drop(reset=True))),
    Fault("dropped before the body", "connections", "closes before it has read the request's body",
          _always(actions.IgnoreBody(), actions.Drop())),
    Fault("reset before the body", "connections", "resets before it has read the request's body",
          _always(actions.IgnoreBody(), actions.Drop(reset=True))),
    Fault("answer lost", "connections", "performs the request, and closes without an answer",
          _always(actions.LoseAnswer())),
    Fault("answer lost by reset", "connections", "performs the request, and resets",
          _always(actions.LoseAnswer(reset=True))),
    Fault("honest, then closed", "connections", "answers rightly, promises keep-alive, and closes",
          _always(actions.CloseWhenDone()), harmless=True),
    # heads
    Fault("head cut", "heads", "closes within the head", _rewrite(lambda r: replace(r, stop=20, ending="close"))),
    Fault("head reset", "heads", "resets within the head", _rewrite(lambda r: replace(r, stop=20, ending="reset"))),
    Fault("head without end", "heads", "sends all of the head but its last CRLF, and is silent",
          lambda gate: (Rewrite(lambda r: replace(r, stop=len(r.head) - 2, gate=gate, ending="close")),)),
    Fault("silent", "heads", "performs the request, and sends nothing", lambda gate: (actions.HoldHead(gate),)),
    Fault("performed late", "heads", "is silent, and performs the request when it is healthy again",
          lambda gate: (actions.HoldRequest(gate),)),
    Fault("dripping head", "heads", "sends the head 40 bytes at a time, every 20 s",
          _rewrite(lambda r: replace(r, piece=40 if not r.body else max(40, len(r.body) // 4), interval=20.0))),
    Fault("garbage", "heads", "sends bytes that are not HTTP", _always(actions.Garbage())),
    Fault("HTTP/0.9", "heads", "sends the body without a head",
          _rewrite(lambda r: replace(r, stop=0, before=r.body or b"hello", ending="close"))),
    Fault("HTTP/2", "heads", "speaks of another version",
          _rewrite(lambda r: replace(r, status_line=r.status_line.replace("HTTP/1.1", "HTTP/2.0")))),
    Fault("status of two digits", "heads", "answers with the status 20", _rewrite(lambda r: _status(r, "20 OK"))),
    Fault("bare LF", "heads", "ends the lines of the head by LF",
          _rewrite(lambda r: replace(r, before=r.head.replace(b"\r\n", b"\n") + r.body, stop=0, ending="close"))),
    Fault("no colon", "heads", "sends a line without a colon",
          _rewrite(lambda r: replace(r, status_line=f"{r.status_line}\r\nnonsense"))),
    Fault("folded header", "heads", "folds a line of the head",
          _rewrite(lambda r: replace(r, status_line=f"{r.status_line}\r\nX-A: 1\r\n b"))),
    Fault("NUL in the head", "heads", "sends a NUL in a header", _rewrite(lambda r: r.adding(("X-A", "a\0b")))),
    Fault("header bomb", "heads", "sends a header of 80 KB", _rewrite(lambda r: r.adding(("X-A", "a" * 80_000)))),
    Fault("many headers", "heads", "sends 5,000 headers",
          _rewrite(lambda r: r.adding(*((f"X-{n}", "a" * 20) for n in range(5000))))),
    Fault("100 first", "heads", "sends 100 before the answer",
          _rewrite(lambda r: replace(r, before=b"HTTP/1.1 100 Continue\r\n\r\n")), harmless=True),
    Fault("103 first", "heads", "sends 103 before the answer",
          _rewrite(lambda r: replace(r, before=b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")), harmless=True),
    Fault("100 alone", "heads", "sends 100 and closes",
          _rewrite(lambda r: replace(r, before=b"HTTP/1.1 100 Continue\r\n\r\n", stop=0, ending="close"))),
    Fault("101", "heads", "switches protocols, unasked",
          _rewrite(lambda r: _status(r, "101 Switching Protocols").adding(("Upgrade", "x"),
                                                                          ("Connection", "upgrade")))),
    # framing
    Fault("two lengths", "framing", "announces two lengths",
          _rewrite(lambda r: r.adding(("Content-Length", "1")) if r.header("Content-Length") else r)),
    Fault("length and chunks", "framing", "announces a length and the chunked coding",
          _rewrite(lambda r: r.adding(("Transfer-Encoding", "chunked")))),
    Fault("unknown coding", "framing", "announces a transfer coding that nobody offered",
          _rewrite(lambda r: r.without("content-length").adding(("Transfer-Encoding", "gzip")))),
    Fault("negative length", "framing", "announces a negative length",
          _rewrite(lambda r: r.replacing("Content-Length", "-5"))),
    Fault("length in words", "framing", "announces a length that is no number",
          _rewrite(lambda r: r.replacing("Content-Length", "12 bytes"))),
    Fault("too long a length", "framing", "announces 5 bytes more than it sends", _rewrite(_length(5))),
    Fault("too short a length", "framing", "announces 5 bytes less than it sends", _rewrite(_length(-5))),
    Fault("no length", "framing", "ends the body with the connection",
          _rewrite(lambda r: replace(r.without("content-length"), ending="close"))),
    Fault("no length, and cut", "framing", "ends the body with the connection, in its middle",
          _rewrite(lambda r: replace(r.without("content-length"), body=r.body[: len(r.body) // 2], ending="close"))),
    Fault("chunks", "framing", "sends chunks, rightly",
          _rewrite(_chunked(lambda b: b"%x\r\n%b\r\n0\r\n\r\n" % (len(b), b)))),
    Fault("chunks with a trailer", "framing", "sends chunks and a trailer",
          _rewrite(_chunked(lambda b: b"%x;a=b\r\n%b\r\n0\r\nETag: \"x\"\r\n\r\n" % (len(b), b)))),
    Fault("chunks without end", "framing", "sends all chunks but the last",
          _rewrite(_chunked(lambda b: b"%x\r\n%b\r\n" % (len(b), b)))),
    Fault("chunk cut", "framing", "closes within a chunk",
          _rewrite(_chunked(lambda b: b"%x\r\n%b" % (len(b) + 7, b[: len(b) // 2])))),
    Fault("bad chunk size", "framing", "sends a chunk whose size is no number",
          _rewrite(_chunked(lambda b: b"%x\r\n%b\r\nxyz\r\n" % (len(b), b)))),
    Fault("HEAD with a body", "framing", "sends a body after the head of a HEAD",
          _rewrite(lambda r: replace(r, body=b"surplus") if r.method == "HEAD" else r)),
    Fault("duplicate response", "framing", "sends the response twice", _rewrite(_duplicated(late=False))),
    Fault("late duplicate", "framing", "sends the response once more, later", _rewrite(_duplicated(late=True))),
    # bodies
    Fault("body cut at 0", "bodies", "closes before the body", _always(actions.CloseAfter(0))),
    Fault("body cut at 1", "bodies", "closes after a byte of the body", _always(actions.CloseAfter(1))),
    Fault("body cut in the middle", "bodies", "closes in the middle of the body",
          _rewrite(lambda r: replace(r, body=r.body[: len(r.body) // 2], ending="close"))),
    Fault("body cut at the last byte", "bodies", "closes one byte early",
          _rewrite(lambda r: replace(r, body=r.body[:-1], ending="close"))),
    Fault("body reset", "bodies", "resets in the middle of the body",
          _rewrite(lambda r: replace(r, body=r.body[: len(r.body) // 2], ending="reset"))),
    Fault("longer body", "bodies", "sends more than it announced", _always(actions.LongerBody(b"surplus"))),
    Fault("silent in the body", "bodies", "is silent in the middle of the body",
          lambda gate: (Rewrite(lambda r: replace(r, body=r.body[: len(r.body) // 2], gate=gate, ending="close")),)),
    Fault("silent at the last byte", "bodies", "is silent before the last byte of the body",
          lambda gate: (Rewrite(lambda r: replace(r, body=r.body[:-1], gate=gate, ending="close")),)),
    Fault("slow body", "bodies", "sends the response in seven pieces, 50 s apart", _rewrite(_slow_body)),
    Fault("compressed", "bodies", "compresses the body", _always(actions.Compress())),
    Fault("compressed, and cut", "bodies", "compresses the body, and leaves out the end", _rewrite(_truncated_gzip)),
    # ranges
    Fault("range start", "ranges", "labels the range as beginning a byte later",
          _rewrite(_content_range(lambda first, last, total: f"bytes {first + 1}-{last}/{total}"))),
    Fault("range end", "ranges", "labels the range as ending a byte earlier",
          _rewrite(_content_range(lambda first, last, total: f"bytes {first}-{last - 1}/{total}"))),
    Fault("total smaller", "ranges", "states a smaller size of the object in Content-Range",
          _rewrite(_content_range(lambda first, last, total: f"bytes {first}-{last}/{total - 100}"))),
    Fault("total larger", "ranges", "states a larger size of the object in Content-Range",
          _rewrite(_content_range(lambda first, last, total: f"bytes {first}-{last}/{total + 100}"))),
    Fault("no total", "ranges", "states no size of the object in Content-Range",
          _rewrite(_content_range(lambda first, last, total: f"bytes {first}-{last}/*"))),
    Fault("another unit", "ranges", "states a range of items",
          _rewrite(_content_range(lambda first, last, total: f"items {first}-{last}/{total}"))),
    Fault("206 without a range", "ranges", "answers 206 without Content-Range",
          _rewrite(lambda r: r.without("content-range"))),
    Fault("range ignored", "ranges", "answers 200 with all of the object to a range", _always(actions.IgnoreRange())),
    Fault("another range", "ranges", "answers with another range", _always(actions.AnotherRange("bytes=10-19")),
          frozenset({416})),
    Fault("206 unasked", "ranges", "answers 206 to a request without a range", _rewrite(_whole_as_range)),
    Fault("206 shorter than it says", "ranges", "sends less than Content-Range says, with a length that agrees",
          _rewrite(_shortened(5))),
    # metadata
    Fault("no ETag", "metadata", "leaves out the ETag", _rewrite(lambda r: r.without("etag"))),
    Fault("weak ETag", "metadata", "sends a weak ETag",
          _rewrite(_success(lambda r: r.replacing("ETag", f"W/{r.header('ETag')}")))),
    Fault("another ETag", "metadata", "sends another ETag",
          _rewrite(_success(lambda r: r.replacing("ETag", WRONG_ETAG)))),
    Fault("two ETags", "metadata", "sends two ETags",
          _rewrite(lambda r: r.adding(("ETag", WRONG_ETAG)) if r.header("ETag") else r)),
    Fault("shorter object", "metadata", "serves a shorter object under the same ETag",
          _rewrite(_success(_shortened(100, size=True)))),
    Fault("empty 200", "metadata", "answers each read with 200, the right ETag and no byte", _rewrite(_empty)),
    Fault("304 unasked", "metadata", "answers 304 to everything", _rewrite(_not_modified(None)),
          frozenset({304})),
    Fault("304 of another", "metadata", "answers 304 with another ETag", _rewrite(_not_modified(WRONG_ETAG)),
          frozenset({304})),
    Fault("no Last-Modified", "metadata", "leaves out Last-Modified", _rewrite(lambda r: r.without("last-modified")),
          harmless=True),
    Fault("odd Last-Modified", "metadata", "sends a Last-Modified that is no date",
          _rewrite(lambda r: r.replacing("Last-Modified", "yesterday"))),
    Fault("wrong checksums", "metadata", "sends wrong checksums",
          _rewrite(_success(lambda r: _set(_set(r, "x-amz-checksum-crc64nvme", "AAAAAAAAAAA="),
                                           "x-oss-hash-crc64ecma", "1") if r.header("ETag") else r))),
    # documents
    Fault("200 with an error", "documents", "performs nothing, and answers 200 with an error document",
          _always(actions.LateError())),
    Fault("blanks and an error", "documents", "performs nothing, and answers 200, blanks and an error document",
          _always(actions.LateError(), Rewrite(lambda r: replace(
              r.without("content-length"), body=b"<?xml version=\"1.0\"?>\n   \n" + r.body.partition(b"?>")[2],
              ending="close")))),
    Fault("blanks, and cut", "documents", "answers 200, then blanks, then closes",
          _rewrite(lambda r: replace(r, body=b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n \n", ending="close"))),
    Fault("another document", "documents", "performs nothing, and answers 200 with a document of something else",
          _always(actions.LateError(), Rewrite(_document(b"<Other/>")))),
    # refusals
    *_errors(),
    Fault("500, and cut", "refusals", "answers 500 with a document that breaks off", _rewrite(_broken_error),
          frozenset({500})),
    Fault("403 of 200 KB", "refusals", "answers 403 with a large page", _rewrite(_large_error), frozenset({403})),
    Fault("200 before the body", "refusals", "answers 200 before it has read the request's body, and performs nothing",
          _always(actions.IgnoreBody(), actions.Respond(200), actions.CloseWhenDone())),
    Fault("403 before the body", "refusals", "answers 403 before it has read the request's body",
          _always(actions.IgnoreBody(), actions.Respond(403, "AccessDenied"), actions.CloseWhenDone()),
          frozenset({403})),
    Fault("503 before the body", "refusals", "answers 503 before it has read the request's body",
          _always(actions.IgnoreBody(), actions.Respond(503, "SlowDown"), actions.CloseWhenDone()),
          frozenset({503})),
)  # fmt: skip

FAMILIES: Final = tuple(dict.fromkeys(fault.family for fault in FAULTS))
