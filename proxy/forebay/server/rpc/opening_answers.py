"""Opening answers: the owner's end of relayed openings (peers.relayed_openings). The calling worker has authenticated
and authorised the request.

    request ──fresh, and in memory──────────────────────────────────> answer: the head, and all bytes
         ├───plain──> opening (metadata.direct_openings) ──opened──> answer
         └── else           └── given up
             refused             refused, and kept for a moment ──> the calling worker's task goes on with it
                                                             └────> nobody does: abandoned
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import PeerUnavailable
from forebay.core.names import BlockId, ObjectName
from forebay.metadata.direct_openings import DirectOpening, DirectOpenings
from forebay.peers.opening_frames import MAX_OBJECT, OpeningConnection, decode_request, encode_answer, encode_refusal
from forebay.policy.rules import Decision
from forebay.request.admission import GatewayPolicy
from forebay.storage.memory.memory_tier import MemoryTier

KEPT_SECONDS: Final = 2.0
"""Seconds within which the calling worker's task may take over an opening that was given up."""
_REQUESTER: Final = ""
"""The requester whose turns at the origin they take: see forebay.core.requester."""


class OpeningAnswers(OpeningConnection):
    """Answers one other worker. `policy` returns the one in force."""

    def __init__(self, openings: DirectOpenings, memory: MemoryTier, policy: Callable[[], GatewayPolicy]) -> None:
        super().__init__()
        self._openings, self._memory, self._policy = openings, memory, policy
        self._under_way: set[DirectOpening] = set()
        self._given_up: dict[DirectOpening, asyncio.TimerHandle] = {}

    def frame_received(self, received: bytes, start: int, stop: int, body: memoryview | None) -> None:
        """Begins an opening."""
        if body is not None:
            raise PeerUnavailable("a request with a body")
        number, name, wanted = decode_request(received, start, stop)
        opening = None
        if not self.is_full:
            decision = self._policy().rules.decide(name)
            if self._answer_kept(number, name, decision):
                return
        if not self.is_full and self._openings.heads.current(name) is None:
            answer = partial(self._answer, number)
            opening = self._openings.begin(name, decision, Span(0, wanted), _REQUESTER, answer)
        if opening is None:
            self.write(encode_refusal(number))
        else:
            self._under_way.add(opening)

    def _answer_kept(self, number: int, name: ObjectName, decision: Decision) -> bool:
        """Answers for an object that is fresh, and in memory in one block. False: nothing was done."""
        openings, memory = self._openings, self._memory
        head = memory.head(name)
        if head is None or not 0 < head.size <= min(head.block_size, MAX_OBJECT):
            return False
        if not openings.is_plain(name, decision) or not openings.heads.is_fresh(name, head, decision, no_cache=False):
            return False
        body, encoded = memory.get(BlockId(name, head.generation, 0)), encode_answer(number, head, was_kept=True)
        if body is None or encoded is None:
            return False
        self.write(encoded, body)
        return True

    def _answer(self, number: int, opening: DirectOpening) -> None:
        self._under_way.discard(opening)
        head, body = opening.head, opening.body
        encoded = None
        if head is None:
            self._give_up(opening)
        elif body is not None and not self.is_full:
            encoded = encode_answer(number, head)
        if encoded is not None and body is not None:
            self.write(encoded, body)
        else:
            self.write(encode_refusal(number))
        opening.finish()

    def _give_up(self, opening: DirectOpening) -> None:
        opening.give_up()
        self._given_up[opening] = self._loop.call_later(KEPT_SECONDS, self._abandon, opening)

    def _abandon(self, opening: DirectOpening) -> None:
        del self._given_up[opening]
        opening.abandon()

    def connection_lost(self, exc: Exception | None) -> None:
        """Closes the openings of the other worker, which has ended, or is about to connect again."""
        super().connection_lost(exc)
        for opening in self._under_way:
            opening.close()
        self._under_way.clear()
        for opening, timer in self._given_up.items():
            timer.cancel()
            opening.abandon()
        self._given_up.clear()
