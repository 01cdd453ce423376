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
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import Asker
from forebay.origin.read_outcomes import Foreign, Opened, Refused
from forebay.peers.frames import Document, PeerGone
from forebay.peers.peer_client import FENCE_PATIENCE, Coming, Peer
from forebay.peers.peer_codec import (
    head_document,
    head_of,
    name_document,
    read,
    refusal_of,
    span_document,
    span_of,
)
from forebay.policy.ownership import owner_of

__all__ = ["How", "Owner", "PeerGone", "Peers", "Told"]

How: TypeAlias = Literal["believed", "checked", "opened"]
FromOwner: TypeAlias = Literal["flight", "joined", "worker"]
_HOW: Final[dict[str, How]] = {"believed": "believed", "checked": "checked", "opened": "opened"}

_SOURCES: Final[dict[str, FromOwner]] = {"flight": "flight", "joined": "joined", "worker": "worker"}


@dataclass(frozen=True, slots=True)
class Told:
    """What an owner knows of an object: its head, how it came by it, and first bytes where they are worth sending."""

    head: Head
    how: How
    opened: Opened | None


class Owner:
    """Asks the worker that owns an object. Everything here raises PeerGone if that is not there."""

    def __init__(self, peer: Peer, missed: Callable[[], None]) -> None:
        self.peer = peer
        self._missed = missed

    async def _ask(self, question: Document) -> tuple[Document, Coming]:
        try:
            return await self.peer.ask(question)
        except PeerGone:
            self._missed()
            raise

    async def resolve(
        self, name: ObjectName, span: Span | None, unless: Head | None, *, strict: bool, version_id: str | None = None
    ) -> Told | Refused | Foreign:
        """The current version of `name`, or the one with this id. `span`: the bytes wanted first; `unless`: the head
        that is known, whose bytes need not come; `strict`: the origin must be asked. Raises OriginError, Throttled."""
        question = {
            "kind": "resolve",
            "name": name_document(name),
            "span": span_document(span),
            "unless": unless.generation.hex() if unless is not None else None,
            "strict": strict,
            "version": version_id,
        }
        answer, coming = await self._ask(question)
        opened = None
        try:
            if "refused" in answer:
                return read(lambda: refusal_of(answer["refused"]))
            if "foreign" in answer:
                return Foreign(str(answer["foreign"]))
            head, how = read(lambda: (head_of(answer["head"]), _HOW[answer["how"]]))
            if answer.get("span") is not None:
                opened = _opened(answer, coming, head)
            return Told(head, how, opened)
        finally:
            if opened is None:
                coming.close()

    async def open(self, name: ObjectName, head: Head, span: Span, asker: Asker | None) -> Opened:
        """The bytes `span` of the version that `head` describes. Raises OriginError, Throttled."""
        question = {
            "kind": "open",
            "name": name_document(name),
            "head": head_document(head),
            "span": span_document(span),
            "asker": asker.id if asker is not None else None,
        }
        answer, coming = await self._ask(question)
        try:
            return _opened(answer, coming, head)
        except BaseException:
            coming.close()
            raise


def _opened(answer: Document, coming: Coming, head: Head) -> Opened:
    span = read(lambda: span_of(answer["span"]))
    source = read(lambda: _SOURCES[answer["source"]])
    return Opened(head.facts, span, coming.body(span.length), source)


class Peers:
    """The other workers. `me`: this worker's number; `others`: by theirs."""

    def __init__(self, me: int = 0, others: Mapping[int, Peer] | None = None) -> None:
        self.me = me
        self.others = dict(others or {})
        self.workers = 1 + len(self.others)
        self.when_missed: Callable[[], None] = lambda: None
        """Called when an owner was not there, or was silent."""
        self._owners = {number: Owner(peer, self._missed) for number, peer in self.others.items()}

    def _missed(self) -> None:
        self.when_missed()

    def owner(self, name: ObjectName) -> Owner | None:
        """Who is to be asked about an object; None: nobody, it is ours."""
        if not self._owners:
            return None
        return self._owners.get(owner_of(name, self.workers))

    def owns(self, name: ObjectName) -> bool:
        return self.owner(name) is None

    async def insist(self, document: Document, *, slow: bool = False) -> dict[int, str | None]:
        """Have all others do something, which may be `slow`; which process of each has done it, None where nobody
        listens."""
        answers = await asyncio.gather(
            *(peer.insist(document, FENCE_PATIENCE, slow=slow) for peer in self.others.values())
        )
        return dict(zip(self.others, answers, strict=True))

    async def gather(self, document: Document) -> dict[int, Document]:
        """Ask all others; the answers of those who gave one."""

        async def asked(peer: Peer) -> Document | None:
            try:
                return await peer.call(document)
            except PeerGone:
                return None

        answers = await asyncio.gather(*(asked(peer) for peer in self.others.values()))
        return {number: answer for number, answer in zip(self.others, answers, strict=True) if answer is not None}

    def cast(self, document: Document) -> None:
        """Tell all others, without an answer."""
        for peer in self.others.values():
            peer.cast(document)

    def close(self) -> None:
        for peer in self.others.values():
            peer.close()
