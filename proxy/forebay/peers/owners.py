"""The node's other workers, as flights see them: who owns an object, and how its owner is asked.

An owner is to the others what the origin is to a single worker: they ask it for the current version of an object and
for the blocks they lack, keep flights of their own over what it sends, and hold what they learn to the same fences. So
there is one flight a block on the node, the owner's, and one question about an object. What a worker asks another is
asked after its own authentication and authorisation.

An owner that is not there, or hangs (peers.liveness), is not waited for: whoever needs its objects asks the origin
until it is back.

One worker has no others: it owns everything, and there is no socket.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.read_outcomes import ErrorResponse, ObjectOpened, Uncacheable
from forebay.peers.frames import Document, PeerUnavailable
from forebay.peers.peer_client import FENCE_TIMEOUT, Peer, ResponseStream
from forebay.peers.peer_codec import (
    decode,
    decode_head,
    decode_refusal,
    decode_span,
    encode_head,
    encode_name,
    encode_span,
)
from forebay.policy.ownership import owner_of

__all__ = ["LookupStatus", "Owner", "OwnerResponse", "PeerUnavailable", "Peers"]

LookupStatus: TypeAlias = Literal["fresh", "revalidated", "fetched"]
"""How a head was had: without a request, confirmed by the origin, or read from it."""
FromOwner: TypeAlias = Literal["flight", "joined", "worker"]
_STATUSES: Final[dict[str, LookupStatus]] = {"fresh": "fresh", "revalidated": "revalidated", "fetched": "fetched"}

_SOURCES: Final[dict[str, FromOwner]] = {"flight": "flight", "joined": "joined", "worker": "worker"}

UPDATE_TIMEOUT: Final = 5.0
"""Seconds that the other workers may take to apply a change before the client is answered."""


@dataclass(frozen=True, slots=True)
class OwnerResponse:
    """What an owner knows of an object: its head, how it came by it, and first bytes where they are worth sending."""

    head: Head
    status: LookupStatus
    opened: ObjectOpened | None


class Owner:
    """Asks the worker that owns an object. Everything here raises PeerUnavailable if that is not there."""

    def __init__(self, peer: Peer, on_missed: Callable[[], None]) -> None:
        self.peer = peer
        self._on_missed = on_missed

    async def _stream(self, question: Document) -> tuple[Document, ResponseStream]:
        try:
            return await self.peer.stream(question)
        except PeerUnavailable:
            self._on_missed()
            raise

    async def resolve(
        self, name: ObjectName, span: Span | None, unless: Head | None, *, strict: bool, version_id: str | None = None
    ) -> OwnerResponse | ErrorResponse | Uncacheable:
        """The current version of `name`, or the one with this id. `span`: the bytes wanted first; `unless`: the head
        that is known, whose bytes need not come; `strict`: the origin must be asked. Raises OriginError, Throttled."""
        question = {
            "kind": "resolve",
            "name": encode_name(name),
            "span": encode_span(span),
            "unless": unless.generation.hex() if unless is not None else None,
            "strict": strict,
            "version": version_id,
        }
        answer, coming = await self._stream(question)
        opened = None
        try:
            if "refused" in answer:
                return decode(lambda: decode_refusal(answer["refused"]))
            if "foreign" in answer:
                return Uncacheable(str(answer["foreign"]))
            head, how = decode(lambda: (decode_head(answer["head"]), _STATUSES[answer["how"]]))
            if answer.get("span") is not None:
                opened = _opened(answer, coming, head)
            return OwnerResponse(head, how, opened)
        finally:
            if opened is None:
                coming.close()

    async def read(self, name: ObjectName, head: Head, span: Span, identity: OriginIdentity | None) -> ObjectOpened:
        """The bytes `span` of the version that `head` describes. Raises OriginError, Throttled."""
        question = {
            "kind": "open",
            "name": encode_name(name),
            "head": encode_head(head),
            "span": encode_span(span),
            "asker": identity.id if identity is not None else None,
        }
        answer, coming = await self._stream(question)
        try:
            return _opened(answer, coming, head)
        except BaseException:
            coming.close()
            raise


def _opened(answer: Document, coming: ResponseStream, head: Head) -> ObjectOpened:
    span = decode(lambda: decode_span(answer["span"]))
    source = decode(lambda: _SOURCES[answer["source"]])
    return ObjectOpened(head.facts, span, coming.body(span.length), source)


class Peers:
    """The other workers. `me`: this worker's number; `others`: by theirs."""

    def __init__(self, number: int = 0, others: Mapping[int, Peer] | None = None) -> None:
        self.number = number
        self.others = dict(others or {})
        self.workers = 1 + len(self.others)
        self.on_owner_missed: Callable[[], None] = lambda: None
        """Called when an owner was not there, or was silent."""
        self._owners = {number: Owner(peer, self._missed) for number, peer in self.others.items()}

    def _missed(self) -> None:
        self.on_owner_missed()

    def owner(self, name: ObjectName) -> Owner | None:
        """Who is to be asked about an object; None: nobody, it is ours."""
        if not self._owners:
            return None
        return self._owners.get(owner_of(name, self.workers))

    def owns(self, name: ObjectName) -> bool:
        return self.owner(name) is None

    async def call_until_acked(self, document: Document, *, slow: bool = False) -> dict[int, str | None]:
        """Have all others do something, which may be `slow`; which process of each has done it, None where nobody
        listens."""
        answers = await asyncio.gather(
            *(peer.call_until_acked(document, FENCE_TIMEOUT, slow=slow) for peer in self.others.values())
        )
        return dict(zip(self.others, answers, strict=True))

    async def call_all(self, document: Document) -> dict[int, Document]:
        """Ask all others; the answers of those who gave one."""

        async def asked(peer: Peer) -> Document | None:
            try:
                return await peer.call(document)
            except PeerUnavailable:
                return None

        answers = await asyncio.gather(*(asked(peer) for peer in self.others.values()))
        return {number: answer for number, answer in zip(self.others, answers, strict=True) if answer is not None}

    async def update_all(self, document: Document) -> None:
        """Has all others apply a change before a client is answered: its next request may go to any of them. Returns
        after UPDATE_TIMEOUT at the latest; a worker that has not answered by then knows less."""
        if self.others:
            with suppress(TimeoutError):
                async with asyncio.timeout(UPDATE_TIMEOUT):
                    await self.call_all(document)

    def notify(self, document: Document) -> None:
        """Tell all others, without an answer."""
        for peer in self.others.values():
            peer.notify(document)

    def close(self) -> None:
        for peer in self.others.values():
            peer.close()
