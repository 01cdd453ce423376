"""The node prefetcher: each object in the worker that owns it, each ticket back to the worker that gave it."""

from collections.abc import Iterable
from typing import Any, cast

from forebay.core.errors import OriginBroken, PeerUnavailable
from forebay.core.names import ObjectName
from forebay.jobs.prefetch.node_prefetcher import NodePrefetcher, decode_prefetch, finish_ahead
from forebay.jobs.prefetch.prefetch_request import OnOutcome, PrefetchOutcome, PrefetchRequest
from forebay.origin.origin_identity import OriginIdentity
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from harness.owned_names import owner_of


class PrefetcherDouble:
    """Fetches everything, with tickets from `first` on."""

    def __init__(self, first: int) -> None:
        self.next = first
        self.has_tickets = True
        self.fetched: list[PrefetchRequest] = []
        self.ended: list[tuple[str, list[int]]] = []

    def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
        return PrefetchOutcome("fetched", 10, 10, 10, 7) if request.start else None

    def begin(self, request: PrefetchRequest, on_end: OnOutcome) -> bool:
        self.fetched.append(request)
        on_end(PrefetchOutcome("fetched", 10, 10, 10, 7))
        return True

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        self.fetched.append(request)
        self.next += 1
        return PrefetchOutcome("fetched", 10, 10, 10, self.next if self.has_tickets else 0)

    def finish(self, tickets: Iterable[int], *, late: bool = False) -> None:
        self.ended.append(("late" if late else "read", list(tickets)))

    def drop(self, tickets: Iterable[int]) -> None:
        self.ended.append(("dropped", list(tickets)))

    def drop_all(self) -> None:
        self.ended.append(("all", []))


class PeerDouble:
    """Worker 1, as the node prefetcher of worker 0 calls it."""

    worker = 1

    def __init__(self, prefetcher: PrefetcherDouble, failure: Exception | None = None) -> None:
        self.prefetcher: Any = prefetcher
        self.failure = failure
        self.identities: list[str | None] = []

    async def call(self, request: Document) -> Document:
        if self.failure is not None:
            raise self.failure
        assert request["kind"] == "fetch_ahead"
        self.identities.append(request["identity"])
        return {"outcome": list(await self.prefetcher.fetch(decode_prefetch(request, None)))}

    def notify(self, request: Document) -> None:
        if request["kind"] == "drop_ahead":
            self.prefetcher.drop_all()
        else:
            finish_ahead(self.prefetcher, request)


def node(failure: Exception | None = None) -> tuple[NodePrefetcher, PrefetcherDouble, PrefetcherDouble]:
    here, there = PrefetcherDouble(10), PrefetcherDouble(20)
    local: Any = here
    peer: Any = PeerDouble(there, failure)
    return NodePrefetcher(local, Peers({1: peer})), here, there


def request_owned_by(worker: int) -> PrefetchRequest:
    names = (ObjectName("bucket", str(number)) for number in range(100))
    name = next(name for name in names if owner_of(name, 2) == worker)
    return PrefetchRequest(name, 3, None if worker else 9, "plan", None, 77)


async def test_each_object_is_fetched_by_its_owner() -> None:
    ahead, here, there = node()
    requests = [request_owned_by(worker) for worker in (0, 1)]
    outcomes = [await ahead.fetch(request) for request in requests]
    assert (here.fetched, there.fetched) == (requests[:1], requests[1:])
    assert [outcome[:4] for outcome in outcomes] == [("fetched", 10, 10, 10)] * 2


async def test_a_ticket_returns_to_its_worker() -> None:
    ahead, here, there = node()
    tickets = [(await ahead.fetch(request_owned_by(worker))).ticket for worker in (0, 1, 0)]
    ahead.finish([*tickets[:2], 0])
    ahead.finish(tickets[2:], late=True)
    ahead.drop(tickets[1:2])
    ahead.drop(tickets[:1])
    assert here.ended == [("read", [11]), ("late", [12]), ("dropped", [11])]
    assert there.ended == [("read", [21]), ("dropped", [21])]
    ahead.drop_all()
    assert here.ended[-1] == there.ended[-1] == ("all", [])


async def test_an_owner_that_is_gone_is_replaced_by_the_caller() -> None:
    ahead, here, _ = node(PeerUnavailable("gone"))
    ticket = (await ahead.fetch(request_owned_by(1))).ticket
    ahead.finish([ticket])
    assert (len(here.fetched), here.ended) == (1, [("read", [11])])


async def test_the_failure_of_an_owner_is_an_outcome() -> None:
    ahead, here, _ = node(OriginBroken("broken"))
    assert await ahead.fetch(request_owned_by(1)) == PrefetchOutcome("failed", problem="broken")
    assert here.fetched == []


def test_what_is_here_is_found_of_this_workers_objects() -> None:
    ahead, here, _ = node()
    found = ahead.find_nowait(request_owned_by(0))
    assert found is not None
    ahead.finish([found.ticket])
    assert here.ended == [("read", [7])]
    assert ahead.find_nowait(request_owned_by(0)._replace(start=0)) is None
    assert ahead.find_nowait(request_owned_by(1)) is None


def test_only_own_objects_are_begun_without_a_task() -> None:
    ahead, here, there = node()
    outcomes = list[PrefetchOutcome]()
    assert ahead.begin(request_owned_by(0), outcomes.append)
    assert not ahead.begin(request_owned_by(1), outcomes.append)
    assert (here.fetched, there.fetched) == ([request_owned_by(0)], [])
    ahead.finish([outcome.ticket for outcome in outcomes])
    assert (here.ended, there.ended) == ([("read", [7])], [])


async def test_what_claims_nothing_has_no_ticket() -> None:
    ahead, here, there = node()
    here.has_tickets = there.has_tickets = False
    assert [(await ahead.fetch(request_owned_by(worker))).ticket for worker in (0, 1)] == [0, 0]


async def test_the_owner_gets_the_range_and_who_reads_it() -> None:
    """Its caller looks the identity up by its id."""
    there = PrefetcherDouble(20)
    peer, local, identity = PeerDouble(there), PrefetcherDouble(10), OriginIdentity("trainer", cast("Any", None))
    ahead = NodePrefetcher(cast("Any", local), Peers({1: cast("Any", peer)}))
    request = request_owned_by(1)._replace(stop=9)
    for each in (request, request._replace(identity=identity)):
        await ahead.fetch(each)
    assert (there.fetched, local.fetched, peer.identities) == ([request, request], [], [None, identity.id])
