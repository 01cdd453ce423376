"""Warm-up at the owner: another worker warms pieces of its own objects, many in one call.

    job's worker    pieces [[bucket, key, start, stop], ...] ──────────> owner: warms them, one after the other
                    report(number, progress)  <── rows, many in a document ──┘

So each worker fetches what it owns, and no byte of an object passes between them. A small object costs them a row of a
document: the owner sends its rows when REPORTED_BYTES have arrived, and at the end. The first piece that fails ends the
call with that failure, behind the rows of those before it.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Owner
from forebay.peers.peer_codec import decode, decode_name

REPORTED_BYTES: Final = 1 << 20
"""Bytes that have arrived after which progress is reported to the job."""

ProgressKind: TypeAlias = Literal["size", "arrived", "whole", "problem"]
_KINDS: Final = frozenset(get_args(ProgressKind))


class WarmUpProgress(NamedTuple):
    """Progress with one piece: the object's size, once it is known; bytes that are stored; the whole of a small object
    at once; or why the bytes can't be stored."""

    kind: ProgressKind
    size: int = 0
    """Bytes of the object; of `arrived`, those of the wanted ones that arrived."""
    fetched: int = 0
    """Bytes that came from the origin for this."""
    problem: str = ""


Report: TypeAlias = Callable[[WarmUpProgress], None]


class WarmUpPiece(NamedTuple):
    """Bytes of an object."""

    bucket: str
    key: str
    start: int = 0
    stop: int | None = None
    """None: to the end."""


class PieceWarmer(Protocol):
    """Warms pieces in this worker: forebay.jobs.warm_up.object_warmer."""

    async def warm_pieces(
        self,
        pieces: Sequence[tuple[ObjectName, int, int | None]],
        group: str,
        report: Callable[[int, WarmUpProgress], None],
        count_ended: Callable[[int], None],
    ) -> None:
        """Warms bytes of objects, one after the other, in the name of the job `group`. `report`: called with the number
        of a piece, and its progress; `count_ended`: with how many have ended. Raises ForebayError: what the first one
        fails with."""


class ProgressWriter(Protocol):
    """The writer of the owner's response."""

    def write(self, document: Document) -> None:
        """Writes a document to the send buffer. Raises PeerUnavailable."""

    async def send(self, document: Document) -> None:
        """Sends a document. Raises PeerUnavailable."""

    async def send_end(self) -> None:
        """Ends the response. Raises PeerUnavailable."""


async def warm_at_owner(
    owner: Owner, pieces: Sequence[WarmUpPiece], group: str, report: Callable[[int, WarmUpProgress], None]
) -> AsyncGenerator[int]:
    """Has the owner warm `pieces`, in the name of the job `group`. Yields, now and then, how many have ended. Raises
    PeerUnavailable, and the error of the first piece that fails."""
    document, stream = await owner.peer.stream({"kind": "warm", "group": group, "pieces": pieces})
    received: Document | None = document
    try:
        while received is not None:
            for number, progress in _decoded(received):
                report(number, progress)
            yield int(received["ended"])
            received = await stream.receive_document()
    finally:
        stream.close()


async def answer_owner_call(request: Document, warmer: PieceWarmer, out: ProgressWriter) -> None:
    """Answers such a call. Raises PeerUnavailable for a malformed document, and the error of a piece."""
    pieces, group = decode(lambda: ([_decoded_piece(each) for each in request["pieces"]], str(request["group"])))
    rows = _Rows(out)
    try:
        await warmer.warm_pieces(pieces, group, rows.add, rows.count_ended)
    finally:
        await out.send(rows.document())
    await out.send_end()


class _Rows:
    """The rows of one call that are still to be sent."""

    def __init__(self, out: ProgressWriter) -> None:
        self._ended = 0
        """Pieces that have ended."""
        self._out = out
        self._unsent: list[tuple[Any, ...]] = []
        self._arrived = 0

    def count_ended(self, number: int) -> None:
        """Sets the number of pieces that have ended."""
        self._ended = number

    def add(self, number: int, progress: WarmUpProgress) -> None:
        """Adds a row of a piece. Raises PeerUnavailable."""
        self._unsent.append((number, *progress))
        self._arrived += progress.fetched
        if self._arrived >= REPORTED_BYTES:
            self._out.write(self.document())

    def document(self) -> Document:
        """Returns the rows, to be sent."""
        rows, self._unsent, self._arrived = self._unsent, [], 0
        return {"progress": rows, "ended": self._ended}


def _decoded(document: Document) -> list[tuple[int, WarmUpProgress]]:
    """The rows of a document. Raises PeerUnavailable if it does not fit."""
    return decode(lambda: [_decoded_row(*row) for row in document["progress"]])


def _decoded_row(number: int, kind: ProgressKind, size: int, fetched: int, problem: str) -> tuple[int, WarmUpProgress]:
    if kind not in _KINDS:
        raise ValueError(f"no progress: {kind}")
    return int(number), WarmUpProgress(kind, int(size), int(fetched), str(problem))


def _decoded_piece(document: Sequence[Any]) -> tuple[ObjectName, int, int | None]:
    bucket, key, start, stop = document
    return decode_name((bucket, key)), int(start), None if stop is None else int(stop)
