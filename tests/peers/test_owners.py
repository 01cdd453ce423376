"""Owners: each object has one, whose failures and sources reach the calling worker."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import PeerUnavailable
from forebay.core.heads import ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.origin.reads.read_outcomes import ErrorResponse, Uncacheable
from forebay.peers.frames import Document
from forebay.peers.owners import Owner, OwnerResponse, Peers
from forebay.peers.ownership_claims import FILE_NAME, OwnershipClaims
from forebay.peers.peer_codec import encode_error_response, encode_head

NAME = ObjectName("bucket", "key")
HEAD = head_of(ObjectFacts(Version('"1"'), 5, "", ()), 4, 0.0)


class Stream:
    """The stream after a response."""

    def __init__(self) -> None:
        self.closed = False

    def body(self, length: int) -> int:
        return length

    def close(self) -> None:
        self.closed = True


class ScriptedPeer:
    """Another worker with one response; None: it is not there."""

    def __init__(self, response: Document | None) -> None:
        self.response = response
        self.opened = Stream()
        self.notified: list[Document] = []

    async def call(self, request: Document) -> Document:
        if self.response is None:
            raise PeerUnavailable("gone")
        return self.response

    async def stream(self, request: Document) -> tuple[Document, Stream]:
        return await self.call(request), self.opened

    def notify(self, request: Document) -> None:
        self.notified.append(request)


def peers(*responses: Document | None) -> tuple[Peers, list[ScriptedPeer]]:
    scripted = [ScriptedPeer(response) for response in responses]
    others: Any = dict(enumerate(scripted, 1))
    return Peers(others), scripted


def owner(response: Document | None) -> tuple[Owner, ScriptedPeer, list[str]]:
    peer, missed = ScriptedPeer(response), list[str]()
    double: Any = peer
    return Owner(double, lambda: missed.append("missed")), peer, missed


def test_a_single_worker_owns_everything() -> None:
    assert Peers().owns(NAME)


def test_each_object_has_one_owner_among_the_workers() -> None:
    group, _ = peers({}, {})
    owners = {group.owner(ObjectName("bucket", str(number))) for number in range(100)}
    assert len(owners) == 3, "two others, and this worker"
    assert None in owners


def test_an_object_that_is_about_to_be_fetched_is_claimed(tmp_path: Path) -> None:
    names = [ObjectName("bucket", str(number)) for number in range(100)]
    claims = OwnershipClaims.open(tmp_path / FILE_NAME, 0, 2)
    assert claims is not None
    with closing(claims):
        one: Any = ScriptedPeer({})
        group = Peers({1: one}, claims)
        by_hash = [name for name in names[:20] if not group.owns(name)]
        assert by_hash
        assert all(group.claim(name) is group.owner(name) is not None for name in by_hash), (
            "they are known to be others'"
        )
        assert {group.claim(name) for name in names[20:]} == {None}, "whatever their hashes say"
        assert all(group.owns(name) for name in names[20:])


async def test_a_call_to_all_leaves_out_those_not_there() -> None:
    group, _ = peers({"number": 1}, None)
    assert await group.call_all({"kind": "x"}) == {1: {"number": 1}}


async def test_a_notification_goes_to_all() -> None:
    group, scripted = peers({}, {})
    group.notify({"kind": "x"})
    assert [peer.notified for peer in scripted] == [[{"kind": "x"}]] * 2


async def test_an_owner_not_there_is_counted() -> None:
    called, _, missed = owner(None)
    with pytest.raises(PeerUnavailable):
        await called.resolve(NAME, None, None, strict=False)
    assert missed == ["missed"]


async def test_a_head_without_bytes_closes_the_stream() -> None:
    called, peer, _ = owner({"head": encode_head(HEAD), "status": "fresh"})
    assert await called.resolve(NAME, None, None, strict=False) == OwnerResponse(HEAD, "fresh", None)
    assert peer.opened.closed


async def test_a_head_with_bytes_keeps_the_stream_open() -> None:
    called, peer, _ = owner({"head": encode_head(HEAD), "status": "fetched", "span": [0, 5], "source": "joined"})
    found = await called.resolve(NAME, Span(0, 5), None, strict=False)
    assert isinstance(found, OwnerResponse)
    assert found.opened is not None
    assert (found.opened.span, found.opened.source) == (Span(0, 5), "joined")
    assert not peer.opened.closed


async def test_the_origins_refusal_passes_through_the_owner() -> None:
    refused = ErrorResponse(403, (("a", "b"),), b"no")
    for response, outcome in (
        ({"error": encode_error_response(refused)}, refused),
        ({"uncacheable": "why"}, Uncacheable("why")),
    ):
        called, peer, _ = owner(response)
        assert await called.resolve(NAME, None, None, strict=False) == outcome
        assert peer.opened.closed


@pytest.mark.parametrize("response", [{}, {"span": [0, 5]}, {"span": [0, 5], "source": "other"}, {"span": 1}])
async def test_a_read_that_does_not_fit_closes_the_stream(response: Document) -> None:
    called, peer, _ = owner(response)
    with pytest.raises(PeerUnavailable):
        await called.read(NAME, HEAD, Span(0, 5), None)
    assert peer.opened.closed


@pytest.mark.parametrize("response", [{}, {"status": "fresh"}, {"head": encode_head(HEAD), "status": "other"}])
async def test_a_response_that_does_not_fit_closes_the_stream(response: Document) -> None:
    called, peer, _ = owner(response)
    with pytest.raises(PeerUnavailable):
        await called.resolve(NAME, None, None, strict=False)
    assert peer.opened.closed
