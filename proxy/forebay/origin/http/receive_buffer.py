"""The receive buffer of a loop: what arrives at any connection to the origin is received into it first.

Large enough for a head and all of a small object, which so come at once (docs/decisions/0039).
"""

from typing import Final

RECEIVED: Final = 128 * 1024
"""Bytes that are received at once."""


class ReceiveBuffer:
    """The buffer that the connections of one loop receive into while none of their readers has passed its own. Its
    bytes are good for the call of `buffer_updated` only."""

    __slots__ = ("received", "view")

    def __init__(self) -> None:
        self.received = bytearray(RECEIVED)
        self.view = memoryview(self.received)
