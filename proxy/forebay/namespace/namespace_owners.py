"""The listings of a node: one worker lists each namespace, and the other workers request pages and entries from it.

    worker 1 ── list (query) ──> owner of the namespace ──> page, or: the origin answers
             ── listed (name) ─>                        ──> entry, or nothing

The owner has the snapshot and the overlay of every worker's writes: a write raises its fence in all workers before its
client gets the response. If the owner is gone, nobody waits for it: the origin answers.
"""

from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from forebay.core.errors import ForebayError, OriginError, PeerUnavailable
from forebay.core.names import ObjectName
from forebay.core.request_record import CacheStatus
from forebay.namespace.listing_answer import ListingAnswer
from forebay.namespace.listings import Listings
from forebay.namespace.snapshots import ListedEntry
from forebay.peers.frames import Document
from forebay.peers.owners import Owner, Peers
from forebay.peers.peer_codec import decode, encode_name
from forebay.protocol.listing_query import ListingQuery, StartPoint
from forebay.protocol.xml.listed_page import EntryFacts

MAX_DOCUMENT: Final = 32 << 20
_SOURCES: Final[dict[str, CacheStatus]] = {"hit-ssd": "hit-ssd", "partial": "partial", "miss": "miss"}


class NodeListings:
    """Answers from this worker's listings, or by their owner's."""

    def __init__(self, local: Listings, peers: Peers) -> None:
        self.local = local
        self._peers = peers

    def is_listed(self, name: ObjectName) -> bool:
        """Whether the rules let listings with this object be answered here."""
        return self.local.scope(*name) is not None

    async def answer(self, query: ListingQuery) -> ListingAnswer | None:
        """The page; None: the origin answers."""
        owner, is_ruled = self._owner(query.bucket, query.prefix)
        if not is_ruled:
            return None
        if owner is None:
            return await self.local.answer(query)
        with suppress(PeerUnavailable, OriginError):
            return await _request_page(owner, query)
        return None

    async def entry(self, name: ObjectName) -> ListedEntry | None:
        """Returns the entry of an object in the latest snapshot, if it is still proven; None otherwise."""
        owner, is_ruled = self._owner(*name)
        if not is_ruled:
            return None
        if owner is None:
            return await self.local.entry(name)
        with suppress(ForebayError):
            response = await owner.peer.call({"kind": "listed", "name": encode_name(name)})
            return decode(lambda: decode_entry(response))
        return None

    def _owner(self, bucket: str, prefix: str) -> tuple[Owner | None, bool]:
        """Returns the owner of the namespace, None for this worker; and whether there is such a namespace."""
        scope = self.local.scope(bucket, prefix)
        return (None, False) if scope is None else (self._peers.owner(ObjectName(bucket, scope.prefix)), True)


async def _request_page(owner: Owner, query: ListingQuery) -> ListingAnswer | None:
    response, stream = await owner.peer.stream({"kind": "list", "query": asdict(query)})
    try:
        source = _SOURCES.get(response.get("source") or "")
        size = response.get("size")
        if source is None or not isinstance(size, int) or not 0 < size <= MAX_DOCUMENT:
            return None
        document = memoryview(bytearray(size))
        position = 0
        while position < size:
            count = await stream.read_into(document[position:])
            if not count:
                return None
            position += count
        return ListingAnswer(bytes(document), source)
    finally:
        stream.close()


def decode_query(document: Any) -> ListingQuery:
    """Returns the query of a `list` call. Raises the errors of peers.peer_codec.decode."""
    return ListingQuery(**{**document, "start": StartPoint(**document["start"])})


def encode_entry(entry: ListedEntry | None) -> Document:
    """The response to `listed`."""
    return {} if entry is None else {"facts": list(entry.facts), "listed_at": entry.listed_at}


def decode_entry(response: Document) -> ListedEntry | None:
    """The entry of a response to `listed`."""
    if not response.get("facts"):
        return None
    modified, etag, size = response["facts"]
    return ListedEntry(EntryFacts(str(modified), str(etag), int(size)), float(response["listed_at"]))
