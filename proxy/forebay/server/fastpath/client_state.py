"""The client state: the fast lane's facts about one connection. It proves nothing about the client."""

from collections.abc import Callable
from typing import Protocol

from forebay.policy.grants import Principal
from forebay.server.fastpath.head_template import HeadTemplate
from forebay.server.fastpath.unsigned_head import UnsignedHead


class ExtentSender(Protocol):
    """The sender of file extents to a client."""

    @property
    def unpromoted_hits(self) -> int:
        """Large hits of an object that are sent from buffers, before its blocks are promoted to files."""
        ...

    @property
    def is_free(self) -> bool:
        """Whether a body may be sent now."""
        ...


class ClientState:
    """The state that the fast lane keeps for one connection."""

    __slots__ = ("_make_sender", "_sender", "has_unsent", "peer", "reader", "template", "unsigned")

    def __init__(self, peer: str, make_sender: Callable[[], ExtentSender] | None = None) -> None:
        """`make_sender`: for bodies sent past the transport; None where the connection cannot."""
        self.peer = peer
        self._make_sender = make_sender
        self._sender: ExtentSender | None = None
        self.reader: Principal | None = None
        """The principal of the last hit with a separate body, if its grants alone say which keys it may read; else
        None."""
        self.template: HeadTemplate | None = None
        """The template of the last request that matched one."""
        self.unsigned: UnsignedHead | None = None
        """The head of the last GET that was admitted without a signature."""
        self.has_unsent = False
        """Whether responses were made that are not yet written: no body may overtake them."""

    @property
    def sender(self) -> ExtentSender | None:
        """The writer of file extents, made on first use; None if it cannot send now."""
        if self._sender is None and self._make_sender is not None:
            try:
                self._sender = self._make_sender()
            except OSError:
                self._make_sender = None  # out of descriptors: bodies go through the transport from now on
        return self._sender if self._sender is not None and self._sender.is_free and not self.has_unsent else None
