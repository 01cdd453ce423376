"""Own uploads are found in every worker that answers."""

from typing import cast

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.write.back.drain.own_uploads import MOST, OwnUploads


class _Others:
    """Workers with uploads of their own."""

    def __init__(self, *others: OwnUploads) -> None:
        self.others = dict(enumerate(others))
        self.calls = 0

    async def call_all(self, request: Document) -> dict[int, Document]:
        self.calls += 1
        assert request["kind"] == "own_uploads"
        return {number: each.receive(request) for number, each in self.others.items()}


def _uploads(*ids: str, others: _Others | None = None) -> OwnUploads:
    uploads = OwnUploads(cast("Peers", others) if others is not None else Peers())
    for each in ids:
        uploads.add(each)
    return uploads


async def test_uploads_of_all_workers_are_found() -> None:
    others = _Others(_uploads("b"), _uploads("c"))
    uploads = _uploads("a", others=others)
    assert await uploads.find(["a", "b", "c", "d"]) == {"a", "b", "c"}
    assert (await uploads.find([]), others.calls) == (set(), 1)
    assert await _uploads("a").find(["a", "b"]) == {"a"}
    with pytest.raises(PeerUnavailable):
        uploads.receive({})


async def test_the_oldest_are_forgotten() -> None:
    uploads = _uploads(*map(str, range(MOST + 1)))
    assert await uploads.find(["0", "1", str(MOST)]) == {"1", str(MOST)}
