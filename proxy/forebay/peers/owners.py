"""Owners: each object has one worker of the node as its owner, and the other workers call it in place of the origin.

    worker ──resolve(name)──> owner ──> its tiers, or the origin       the current head of an object
    worker ──read(span)─────> owner ──> its tiers, or the origin       missing blocks of one version

The calling worker has authenticated and authorised the request. It keeps flights of its own over the owner's responses,
and stores heads under its own fences. The origin sees one flight per block and one lookup per object: the owner's.

Nobody waits for an owner that is down or hangs (peers.liveness): requests for its objects go to the origin until it is
back.

A single worker owns every object, and opens no socket.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.errors import PeerUnavailable, Throttled
from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened, Uncacheable
from forebay.peers.frames import Document
from forebay.peers.ownership_claims import OwnershipClaims
from forebay.peers.peer_client import FENCE_TIMEOUT, Peer
from forebay.peers.peer_codec import (
    decode,
    decode_error_response,
    decode_head,
    decode_span,
    encode_head,
    encode_name,
    encode_span,
)
from forebay.peers.response_stream import ResponseStream
from forebay.policy.ownership import hash_of, owner_by_hash

LookupStatus: TypeAlias = Literal["fresh", "revalidated", "fetched"]
"""The source of a head: a tier ("fresh"), a 304 of the origin, or a new response of it."""
OwnerSource: TypeAlias = Literal["flight", "joined", "worker"]
"""The source of an owner's bytes: a flight that this read started, a flight of another reader, or a tier."""

_STATUSES: Final[dict[str, LookupStatus]] = {"fresh": "fresh", "revalidated": "revalidated", "fetched": "fetched"}
_SOURCES: Final[dict[str, OwnerSource]] = {"flight": "flight", "joined": "joined", "worker": "worker"}

UPDATE_TIMEOUT: Final = 5.0
"""Seconds that the other workers may take to apply a change before the client is answered."""


@dataclass(frozen=True, slots=True)
class OwnerResponse:
    """An owner's head of an object. `opened`: the wanted bytes; None: the owner sends none, as the
    caller knows the version or reads the bytes on the SSD tier, or the owner has no buffers."""

    head: Head
    status: LookupStatus
    opened: ObjectOpened | None


class Owner:
    """Calls one other worker as an owner. Every method raises PeerUnavailable if that worker is down or hangs."""

    def __init__(self, peer: Peer, on_missed: Callable[[], None]) -> None:
        """`on_missed`: called if the worker is down or hangs."""
        self.peer = peer
        self._on_missed = on_missed

    async def _stream(self, request: Document) -> tuple[Document, ResponseStream]:
        try:
            return await self.peer.stream(request)
        except PeerUnavailable:
            self._on_missed()
            raise

    async def resolve(
        self, name: ObjectName, span: Span | None, unless: Head | None, *, strict: bool, version_id: str | None = None
    ) -> OwnerResponse | ErrorResponse | Uncacheable:
        """Returns the current version of `name`, or that with `version_id`. Raises OriginError, Throttled.

        `span`: the wanted bytes; None: the head alone. `unless`: a known head; the owner sends no bytes of its version.
        `strict`: the owner validates its own head at the origin first.
        """
        response, stream = await self._stream(
            {
                "kind": "resolve",
                "name": encode_name(name),
                "span": encode_span(span),
                "unless": unless.generation.hex() if unless is not None else None,
                "strict": strict,
                "version": version_id,
            }
        )
        opened = None
        try:
            if "error" in response:
                return decode(lambda: decode_error_response(response["error"]))
            if "uncacheable" in response:
                return Uncacheable(str(response["uncacheable"]))
            head, status = decode(lambda: (decode_head(response["head"]), _STATUSES[response["status"]]))
            if response.get("span") is not None:
                opened = _opened(response, stream, head)
            return OwnerResponse(head, status, opened)
        finally:
            if opened is None:
                stream.close()

    async def read(self, name: ObjectName, head: Head, span: Span, identity: OriginIdentity | None) -> ObjectOpened:
        """Opens the bytes `span` of the version of `head`. Raises OriginError.

        Raises PeerUnavailable also if the owner has no free buffers: the caller holds some, and two workers must not
        wait for each other's.
        """
        try:
            response, stream = await self._stream(
                {
                    "kind": "read",
                    "name": encode_name(name),
                    "head": encode_head(head),
                    "span": encode_span(span),
                    "identity": identity.id if identity is not None else None,
                }
            )
        except Throttled as throttled:
            raise PeerUnavailable("the owner has no buffers") from throttled
        try:
            return _opened(response, stream, head)
        except BaseException:
            stream.close()
            raise


def _opened(response: Document, stream: ResponseStream, head: Head) -> ObjectOpened:
    span = decode(lambda: decode_span(response["span"]))
    source = decode(lambda: _SOURCES[response["source"]])
    return ObjectOpened(head.facts, span, stream.body(span.length), source)


class Peers:
    """The other workers of the node, by their numbers."""

    def __init__(self, others: Mapping[int, Peer] | None = None, claims: OwnershipClaims | None = None) -> None:
        """`claims` None: a hash of the name chooses every owner."""
        self._claims = claims
        self.others = dict(others or {})
        self.workers = 1 + len(self.others)
        self.number = next(number for number in range(self.workers) if number not in self.others)
        """The number of this worker."""
        self.on_owner_missed: Callable[[], None] = lambda: None
        """Called for each call to an owner that is down or hangs."""
        self._owners = {number: Owner(peer, self._missed) for number, peer in self.others.items()}

    def _missed(self) -> None:
        self.on_owner_missed()

    def owner(self, name: ObjectName) -> Owner | None:
        """Returns the owner of an object; None: this worker."""
        if not self._owners:
            return None
        name_hash, claims = hash_of(name), self._claims
        number = claims.find(name_hash) if claims is not None else None
        return self._owners.get(self._assign(name_hash) if number is None else number)

    def claim(self, name: ObjectName) -> Owner | None:
        """Returns the owner of an object before its fetch; None: this worker. An object without an owner becomes this
        worker's, unless its claims run ahead of the others'."""
        if self._claims is None:
            return self.owner(name)
        name_hash = hash_of(name)
        number = self._claims.claim(name_hash)
        return self._owners.get(self._assign(name_hash) if number is None else number)

    def _assign(self, name_hash: int) -> int:
        """Returns the number of the owner of objects with this hash. Without an owner, they get the owner by hash."""
        number = owner_by_hash(name_hash, self.workers)
        return number if self._claims is None else self._claims.assign(name_hash, number)

    def owns(self, name: ObjectName) -> bool:
        """Whether this worker owns an object."""
        return self.owner(name) is None

    async def call_until_acked(self, request: Document, *, slow: bool = False) -> dict[int, str | None]:
        """Calls a method in all others until each has acknowledged it. Returns the instance id of each process by the
        worker's number; None: no process listens. `slow`: the method may take long."""
        instance_ids = await asyncio.gather(
            *(peer.call_until_acked(request, FENCE_TIMEOUT, slow=slow) for peer in self.others.values())
        )
        return dict(zip(self.others, instance_ids, strict=True))

    async def answers_until_acked(self, request: Document) -> list[Document]:
        """Calls a method in all others until each has acknowledged it, and kills processes that hang. Returns the
        responses."""
        responses = await asyncio.gather(
            *(peer.answer_until_acked(request, FENCE_TIMEOUT) for peer in self.others.values())
        )
        return [response for response in responses if response is not None]

    async def call_all(self, request: Document) -> dict[int, Document]:
        """Calls a method in all others once. Returns the responses by the workers' numbers, without those of workers
        that are down."""

        async def call(peer: Peer) -> Document | None:
            try:
                return await peer.call(request)
            except PeerUnavailable:
                return None

        responses = await asyncio.gather(*(call(peer) for peer in self.others.values()))
        return {number: each for number, each in zip(self.others, responses, strict=True) if each is not None}

    async def update_all(self, document: Document) -> None:
        """Has all others apply a change before a client gets its response: its next request may go to any of them.
        Returns after UPDATE_TIMEOUT at the latest; a worker that is slower applies the change later."""
        if self.others:
            with suppress(TimeoutError):
                async with asyncio.timeout(UPDATE_TIMEOUT):
                    await self.call_all(document)

    def notify(self, document: Document) -> None:
        """Sends a message without a response to all others."""
        for peer in self.others.values():
            peer.notify(document)

    def close(self) -> None:
        """Closes the links to all others."""
        for peer in self.others.values():
            peer.close()
