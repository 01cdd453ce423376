"""A request to the origin, before it has an address and a signature."""

from collections.abc import AsyncIterable, Awaitable, Callable
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from forebay.core.buffers import Piece
from forebay.core.heads import HeaderPairs
from forebay.origin.adopted_read import AdoptableRead
from forebay.origin.endpoint import QueryPairs
from forebay.protocol.signatures.signing_key import SecretKey

EMPTY_SHA256: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"


class Unsigned(Enum):
    """The credential of a request that must not be signed. (No credential means Forebay's.)"""

    UNSIGNED = "unsigned"


UNSIGNED: Final = Unsigned.UNSIGNED
RequestCredential: TypeAlias = SecretKey | Unsigned


class OriginRequest(NamedTuple):
    """A request in S3's terms. `bucket` and `key` are decoded names; `query` and `headers` are pairs in order."""

    method: str
    bucket: str | None = None
    key: str | None = None
    query: QueryPairs = ()
    headers: HeaderPairs = ()
    """The caller's. Headers that the origin client sets (Host, Authorization, User-Agent, Content-Length and so on)
    are dropped."""
    body: AsyncIterable[Piece] | bytes | None = None
    content_length: int | None = None
    """Bytes of `body`. None with an AsyncIterable: `Transfer-Encoding: chunked`, which few origins accept."""
    payload_hash: str = EMPTY_SHA256
    """The SHA-256 of the body in hex, UNSIGNED-PAYLOAD, or STREAMING-UNSIGNED-PAYLOAD-TRAILER with the framing in
    `body`.
    """
    operation: str = "Unknown"
    """The label for events and metrics: the API's name."""
    credential: RequestCredential | None = None
    """None: the origin client's own."""
    listed_origins: tuple[str, ...] = ()
    """The origins whose buckets a ListBuckets lists; empty: all of them."""
    is_hedge: bool = False
    """Whether it repeats a read that is late (forebay.origin.reads.hedging): over a new connection, and only if it need
    not wait for a turn."""
    paced_by: Literal["body", "response"] | None = None
    """The part that depends on a client while the request has its turn (forebay.origin.turns.request_turns): the body,
    which is still to come, or the response, which is passed on as the client accepts it."""

    before_completion: Callable[[], Awaitable[None]] | None = None
    """A callback of writes, awaited once: when a connection has been made, before the bytes are sent that complete the
    request. Until then the write can have no effect at the origin."""

    sent: AdoptableRead | None = None
    """The request itself, under way already; it is sent anew if it was taken over before."""

    @property
    def is_read(self) -> bool:
        """Whether the method is safe (RFC 9110, 9.2.1), so that repeating the request does no harm."""
        return self.method in {"GET", "HEAD"}
