"""Warm-up at the owner: many pieces in one call, what becomes of each, and the first failure."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from forebay.core.errors import OriginUnreachable, PeerUnavailable
from forebay.core.names import ObjectName
from forebay.jobs.warm_up.owner_warm_up import (
    REPORTED_BYTES,
    WarmUpPiece,
    WarmUpProgress,
    answer_owner_call,
    warm_at_owner,
)
from forebay.peers.frames import Document
from harness.warming_peer import WarmingPeer

SMALL = WarmUpProgress("whole", 5, 5)
LARGE = [WarmUpProgress("size", 2 * REPORTED_BYTES), *[WarmUpProgress("arrived", REPORTED_BYTES, REPORTED_BYTES)] * 2]


class ScriptedWarmer:
    """Reports what is written for each key, or fails with it."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.script = script
        self.warmed: list[tuple[str, int, int | None]] = []

    async def warm_pieces(
        self,
        pieces: Sequence[tuple[ObjectName, int, int | None]],
        _group: str,
        report: Callable[[int, WarmUpProgress], None],
        count_ended: Callable[[int], None],
    ) -> None:
        for number, (name, start, stop) in enumerate(pieces):
            self.warmed.append((name.key, start, stop))
            progresses = self.script[name.key]
            if isinstance(progresses, Exception):
                raise progresses
            for progress in progresses:
                report(number, progress)
            count_ended(number + 1)


async def warmed(peer: WarmingPeer, *pieces: WarmUpPiece) -> tuple[list[tuple[int, WarmUpProgress]], list[int], str]:
    """The rows, the endings, and the failure of one call."""
    rows: list[tuple[int, WarmUpProgress]] = []
    endings = []
    try:
        async for ended in warm_at_owner(peer.owner, pieces, "job", lambda *row: rows.append(row)):
            endings += [ended]
    except OriginUnreachable as failure:
        return rows, endings, failure.reason
    return rows, endings, ""


async def test_pieces_are_warmed_in_order_in_one_call() -> None:
    problem = WarmUpProgress("problem", problem="404")
    warmer = ScriptedWarmer({"a": [SMALL], "b": [problem], "c": [SMALL]})
    peer = WarmingPeer(warmer)
    pieces = [WarmUpPiece("bucket", "a"), WarmUpPiece("bucket", "b", 3, 9), WarmUpPiece("bucket", "c", 4)]
    assert await warmed(peer, *pieces) == ([(0, SMALL), (1, problem), (2, SMALL)], [3], "")
    assert warmer.warmed == [("a", 0, None), ("b", 3, 9), ("c", 4, None)]
    assert len(peer.calls) == 1


async def test_progress_with_a_large_object_is_reported_meanwhile() -> None:
    peer = WarmingPeer(ScriptedWarmer({"a": [SMALL], "b": LARGE}))
    rows, endings, _ = await warmed(peer, WarmUpPiece("bucket", "a"), WarmUpPiece("bucket", "b"))
    assert rows == [(0, SMALL), *[(1, progress) for progress in LARGE]]
    assert endings == [1, 1, 2]


async def test_a_failure_ends_the_call_behind_what_was_done() -> None:
    warmer = ScriptedWarmer({"a": [SMALL], "b": OriginUnreachable("away"), "c": [SMALL]})
    rows, endings, reason = await warmed(WarmingPeer(warmer), *(WarmUpPiece("bucket", key) for key in "abc"))
    assert (rows, endings, reason) == ([(0, SMALL)], [1], "away")
    assert [key for key, _, _ in warmer.warmed] == ["a", "b"]


@pytest.mark.parametrize(
    "document",
    [
        {"group": "job"},
        {"group": "job", "pieces": [["bucket", "key"]]},
        {"group": "job", "pieces": [["bucket", "key", "x", None]]},
        {"group": "job", "pieces": [["bucket", 7, 0, None]]},
    ],
)
async def test_a_call_that_does_not_fit_is_not_answered(document: Document) -> None:
    nothing: Any = None
    with pytest.raises(PeerUnavailable):
        await answer_owner_call(document, ScriptedWarmer({}), nothing)


@pytest.mark.parametrize("row", [[0, "other", 0, 0, ""], [0, "size"], ["x", "size", 0, 0, ""], 7])
async def test_an_answer_that_does_not_fit_ends_the_call(row: object) -> None:
    class Answer:
        async def stream(self, _request: Document) -> tuple[Document, "Answer"]:
            return {"progress": [row], "ended": 1}, self

        def close(self) -> None:
            self.closed = True

    peer, owner = Answer(), WarmingPeer(ScriptedWarmer({})).owner
    owner.peer = peer  # type: ignore[assignment] # a double
    with pytest.raises(PeerUnavailable):
        [ended async for ended in warm_at_owner(owner, [WarmUpPiece("bucket", "a")], "job", lambda *_: None)]
    assert peer.closed
