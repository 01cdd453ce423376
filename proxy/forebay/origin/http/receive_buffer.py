"""The receive buffer of a loop: all connections to the origin receive into it first.

It has room for a head and a whole small object, which one receive call thus brings (docs/decisions/0039).
"""

from typing import Final

RECEIVED: Final = 128 * 1024
"""Bytes that are received at once."""
RECEIVED_BESIDE_DEMAND: Final = 32 * 1024
"""The same, for background work while clients ask: each connection may receive so much before anybody's turn comes
(forebay.origin.turns.body_turns). For 128 KiB the kernel's copy takes 0.02 ms, the one into new memory some 0.2."""


class ReceiveBuffer:
    """The buffer that the connections of one loop receive into while none of their readers has passed its own. Its
    bytes are good for the call of `buffer_updated` only."""

    __slots__ = ("received", "view")

    def __init__(self, size: int = RECEIVED) -> None:
        self.received = bytearray(size)
        self.view = memoryview(self.received)
