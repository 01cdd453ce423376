"""RPC methods: the calls that one worker answers another, by kind, as tables that the peer service joins.

    streaming    a connection each, a response that goes on as a stream
    ordered      carried out in the order in which calls arrive: none of these waits
    unary        in any order

A document that does not fit raises PeerUnavailable, which ends the connection. Any other ForebayError reaches the
caller as its own.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.errors import PeerUnavailable
from forebay.origin.origin_identity import OriginIdentity
from forebay.peers.frames import Document
from forebay.request.admission import GatewayPolicy
from forebay.write.invalidation import AffectedKeys


class ResponseWriter(Protocol):
    """The response of a streaming method: one document, then bytes or documents, then the end."""

    def write(self, document: Document) -> None:
        """Writes a document to the send buffer. Raises PeerUnavailable."""

    async def send(self, document: Document) -> None:
        """Sends a document. Raises PeerUnavailable."""

    async def send_bytes(self, buffer: Buffer) -> None:
        """Sends bytes. Raises PeerUnavailable."""

    async def send_whole(self, document: Document, buffer: Buffer) -> None:
        """Sends a whole response, of one document and at most WHOLE_PAYLOAD bytes. Raises PeerUnavailable."""

    async def send_end(self) -> None:
        """Ends the response. Raises PeerUnavailable."""


class OpenWrites:
    """The writes under way in one other worker. Lives as long as the link from that worker."""

    def __init__(self) -> None:
        self._affected: dict[int, AffectedKeys] = {}

    def add(self, write: int, affected: AffectedKeys) -> None:
        """Adds a write and the keys that it affects."""
        self._affected[write] = affected

    def remove(self, write: int) -> None:
        """Removes a write that has been invalidated for the last time."""
        self._affected.pop(write, None)

    def remaining(self) -> list[AffectedKeys]:
        """Returns the keys affected by each write under way."""
        return list(self._affected.values())


Streaming: TypeAlias = Callable[[Document, ResponseWriter], Coroutine[Any, Any, None]]
Ordered: TypeAlias = Callable[[Document, OpenWrites], Document | None]
Unary: TypeAlias = Callable[[Document], Coroutine[Any, Any, Document]]


@dataclass(frozen=True, slots=True)
class RpcMethods:
    """Methods by their kinds."""

    streaming: Mapping[str, Streaming] = field(default_factory=dict)
    ordered: Mapping[str, Ordered] = field(default_factory=dict)
    unary: Mapping[str, Unary] = field(default_factory=dict)


def origin_identity(policy: GatewayPolicy, request: Document) -> OriginIdentity | None:
    """Returns the identity that signs the requests to the origin; None: Forebay's own. Raises PeerUnavailable for an
    unknown one: its request is never sent as Forebay's own."""
    principal = request.get("identity")
    identity = policy.keyring.origin_identities.get(principal) if isinstance(principal, str) else None
    if principal is not None and identity is None:
        raise PeerUnavailable("a principal that is not known here")
    return identity
