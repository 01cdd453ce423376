"""The node prefetcher: fetches ahead in the worker that owns the object, from any worker of the node.

To its callers it is a Prefetcher whose tickets name the worker as well. An owner that is down is not waited for: this
worker fetches in its place. When a worker ends, its tickets are void, and so are those that it has received: its
successor drops both (`drop_all`).
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

from forebay.core.errors import ForebayError, PeerUnavailable
from forebay.jobs.prefetch.prefetch_request import OnOutcome, PrefetchOutcome, PrefetchRequest
from forebay.jobs.prefetch.prefetcher import Prefetcher
from forebay.origin.origin_identity import OriginIdentity
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_name, encode_name

KIND_FETCH = "fetch_ahead"
KIND_FINISH = "finish_ahead"
KIND_DROP_ALL = "drop_ahead"


class NodePrefetcher:
    """Fetches ahead for one worker, in all."""

    def __init__(self, local: Prefetcher, peers: Peers) -> None:
        self._local = local
        self._peers = peers

    def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
        """See PrefetchLookup. Objects that another worker owns are looked up there, by `fetch`."""
        found = self._local.find_nowait(request) if self._peers.owner(request.name) is None else None
        return self._with_worker(found, self._peers.number) if found is not None else None

    def begin(self, request: PrefetchRequest, on_end: OnOutcome) -> bool:
        """See PrefetchLookup. Another worker is called by `fetch`."""
        if self._peers.owner(request.name) is not None:
            return False
        return self._local.begin(request, lambda outcome: on_end(self._with_worker(outcome, self._peers.number)))

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        """Fetches a piece where it belongs. Never raises ForebayError."""
        owner = self._peers.owner(request.name)
        if owner is not None:
            with suppress(PeerUnavailable):
                try:
                    response = await owner.peer.call({"kind": KIND_FETCH, **_encode_request(request)})
                except PeerUnavailable:
                    raise
                except ForebayError as failure:
                    return PrefetchOutcome("failed", problem=str(failure))
                return self._with_worker(decode(lambda: PrefetchOutcome(*response["outcome"])), owner.peer.worker)
        return self._with_worker(await self._local.fetch(request), self._peers.number)

    def finish(self, tickets: Iterable[int], *, late: bool = False) -> None:
        """See Prefetcher.finish."""
        by_worker = self._by_worker(tickets)
        own = by_worker.pop(self._peers.number, ())
        for worker, theirs in by_worker.items():
            self._notify(worker, {"kind": KIND_FINISH, "tickets": theirs, "late": late, "drop": False})
        self._local.finish(own, late=late)  # the last, as it may fail

    def drop(self, tickets: Iterable[int]) -> None:
        """See Prefetcher.drop."""
        for worker, own in self._by_worker(tickets).items():
            if worker == self._peers.number:
                self._local.drop(own)
            else:
                self._notify(worker, {"kind": KIND_FINISH, "tickets": own, "late": False, "drop": True})

    def drop_all(self) -> None:
        """Drops all prefetched blocks in every worker, also those of other callers."""
        self._local.drop_all()
        self._peers.notify({"kind": KIND_DROP_ALL})

    def _notify(self, worker: int, document: Document) -> None:
        self._peers.others[worker].notify(document)

    def _with_worker(self, outcome: PrefetchOutcome, worker: int) -> PrefetchOutcome:
        if not outcome.ticket:
            return outcome
        return outcome._replace(ticket=outcome.ticket * self._peers.workers + worker)

    def _by_worker(self, tickets: Iterable[int]) -> dict[int, list[int]]:
        found: defaultdict[int, list[int]] = defaultdict(list)
        for ticket in tickets:
            if ticket:
                number, worker = divmod(ticket, self._peers.workers)
                found[worker].append(number)
        return found


# The owner's side


def _encode_request(request: PrefetchRequest) -> Document:
    return {
        "name": encode_name(request.name),
        "span": [request.start, request.stop],
        "group": request.group,
        "identity": request.identity.id if request.identity is not None else None,
        "expected": request.expected,
        "checksums": request.checksums,
    }


def decode_prefetch(document: Document, identity: OriginIdentity | None) -> PrefetchRequest:
    """Returns the request of a document; `identity` was looked up by its caller. Raises PeerUnavailable."""

    def read() -> PrefetchRequest:
        start, stop = document["span"]
        return PrefetchRequest(
            decode_name(document["name"]),
            int(start),
            int(stop) if stop is not None else None,
            str(document["group"]),
            identity,
            int(document["expected"]),
            document["checksums"] is True,
        )

    return decode(read)


def finish_ahead(prefetcher: Prefetcher, document: Document) -> None:
    """Finishes or drops the tickets of a document. Raises PeerUnavailable."""
    tickets = decode(lambda: [int(ticket) for ticket in document["tickets"]])
    if document.get("drop") is True:
        prefetcher.drop(tickets)
    else:
        prefetcher.finish(tickets, late=document.get("late") is True)
