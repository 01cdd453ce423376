"""What a fault does to an answer. A closed union; harness.fake.faults says to whose answer.

In the order in which they bite:

    before the operation    IgnoreBody  HoldRequest  Drop  Respond  Redirect  LateError  IgnoreRange  AnotherRange
    after it, on the head   LoseAnswer  ChangeHeaders  WrongTotal  Compress  AnnounceLength  Garbage
    while it is sent        HoldHead  HoldAfter  CloseAfter  ResetAfter  LongerBody  ChunkedBody  Shape  CloseWhenDone
    all of it, in bytes     Rewrite
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from harness.fake.gate import Gate
from harness.fake.response_bytes import ResponseBytes


@dataclass(frozen=True, slots=True)
class IgnoreBody:
    """The request's body is not read, and nothing is performed: beside an action that answers, or ends."""


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """The request is read, and performed once the gate opens, whether or not the client is still there."""

    gate: Gate


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing is performed, nothing answered; the connection ends."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class Respond:
    """An error instead of the operation. Without a code there is no document (304, 500 of a load balancer)."""

    status: int
    code: str = ""
    message: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Redirect:
    """301, 302 or 307 with S3's document and a Location."""

    location: str
    status: int = 307


@dataclass(frozen=True, slots=True)
class LateError:
    """200 with an error document, as S3 answers a Complete or a Copy that fails late. Nothing is performed."""

    code: str = "InternalError"
    message: str = "We encountered an internal error. Please try again."


@dataclass(frozen=True, slots=True)
class IgnoreRange:
    """200 and the whole object, whatever range was asked."""


@dataclass(frozen=True, slots=True)
class AnotherRange:
    """The range `header` (`bytes=0-9`) is served, honestly labelled, whatever was asked."""

    header: str


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The operation is performed, then the connection ends without an answer."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class ChangeHeaders:
    """Headers are replaced or added (`set`), or left out (`drop`, lower case)."""

    set: tuple[tuple[str, str], ...] = ()
    drop: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WrongTotal:
    """Content-Range names another size of the object (`*` for none)."""

    total: int | str


@dataclass(frozen=True, slots=True)
class Compress:
    """Somebody on the way compresses: gzipped bytes, `Content-Encoding: gzip`, their length."""


@dataclass(frozen=True, slots=True)
class AnnounceLength:
    """Content-Length says `length`; the body is what it is, and the connection ends after it."""

    length: int


@dataclass(frozen=True, slots=True)
class Garbage:
    """These bytes instead of an answer; the connection ends after them."""

    wire: bytes = b"\x00\x01 this is not HTTP\r\n\r\n"


@dataclass(frozen=True, slots=True)
class HoldHead:
    """The operation is performed; not a byte is sent until the gate opens."""

    gate: Gate


@dataclass(frozen=True, slots=True)
class HoldAfter:
    """After `count` bytes of the body, waits for the gate, then goes on."""

    count: int
    gate: Gate


@dataclass(frozen=True, slots=True)
class CloseAfter:
    """The connection is closed in good order after `count` bytes of the body: a short body."""

    count: int


@dataclass(frozen=True, slots=True)
class ResetAfter:
    """The connection is reset (RST) after `count` bytes of the body."""

    count: int


@dataclass(frozen=True, slots=True)
class LongerBody:
    """`extra` follows the body, beyond Content-Length."""

    extra: bytes


@dataclass(frozen=True, slots=True)
class ChunkedBody:
    """`Transfer-Encoding: chunked` and no Content-Length."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """The body trickles: `pause(tick)` between pieces of `rate * tick` bytes. Tests give a pause of their own."""

    rate: int
    tick: float = 0.05
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class CloseWhenDone:
    """A whole answer that promises keep-alive, then the connection is closed: a pooled connection gone stale."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The honest response, as bytes, is changed before it is sent; no other action has a say in how."""

    change: Callable[[ResponseBytes], ResponseBytes]


Action: TypeAlias = (
    IgnoreBody | HoldRequest | Drop | Respond | Redirect | LateError | IgnoreRange | AnotherRange | LoseAnswer
    | ChangeHeaders | WrongTotal | Compress | AnnounceLength | Garbage | HoldHead | HoldAfter | CloseAfter | ResetAfter
    | LongerBody | ChunkedBody | Throttle | CloseWhenDone | Rewrite
)  # fmt: skip


def change_headers(*drop: str, **changed: str) -> ChangeHeaders:
    """`change_headers("etag")`, `change_headers(etag='W/"a"')`, `change_headers(set_cookie="a=b")`."""
    pairs = tuple((name.replace("_", "-"), value) for name, value in changed.items())
    return ChangeHeaders(pairs, frozenset(name.lower() for name in drop))


MISSING_ETAG = change_headers("etag")
WRONG_ETAG = change_headers(etag='"00000000000000000000000000000bad"')
WEAK_ETAG = change_headers(etag='W/"00000000000000000000000000000bad"')
SLOW_DOWN = Respond(503, "SlowDown", "Please reduce your request rate.")
INTERNAL_ERROR = Respond(500, "InternalError", "We encountered an internal error. Please try again.")
FORBIDDEN = Respond(403, "AccessDenied", "Access Denied")
NO_SUCH_KEY = Respond(404, "NoSuchKey", "The specified key does not exist.")
NOT_MODIFIED = Respond(304)
