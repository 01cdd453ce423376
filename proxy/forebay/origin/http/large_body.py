"""Large bodies of background work: received straight into the memory that they are kept in.

    head ──make_room──> memory for all of it ──part──> its turn ──part──> its turn ──last part──> whole
              └── None: the reader receives it piece by piece (HttpConnection.read_into)

Parts have the size, and take the turns beside demand, that they have if a reader is woken for each
(forebay.origin.turns.body_turns). Where the bytes of several bodies come together, the first one receives a part, and
the others a PROBE, and wait for their next turns.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from forebay.origin.http.response_head import ResponseHead
from forebay.origin.turns.body_turns import PIECE, PROBE, BodyTurns

AT_ONCE: Final = 256 * 1024
"""Bytes of a body that are received in one turn of the loop: the kernel copies them in a tenth of a millisecond."""

WHOLE_LIMIT: Final = 128 * 1024
"""Bytes of a body that is waited for to its end without room being made: more are a large body."""


class LargeBody(NamedTuple):
    """The memory and the turns that a large body is received with."""

    make_room: Callable[[ResponseHead], memoryview | None]
    """A buffer for the whole body, of the length in the head; None: no reader waits for the whole of it."""
    turns: BodyTurns

    def take_part(self) -> int:
        """Returns how many bytes may be received at most, now that the loop has found some of this body."""
        if not self.turns.is_beside_demand:
            return AT_ONCE
        return PIECE if self.turns.take_piece() else PROBE
