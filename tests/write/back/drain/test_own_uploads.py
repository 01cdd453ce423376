"""Own uploads are found in every worker that answers."""

from pathlib import Path
from typing import cast

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.upload_notes import UploadNotes
from forebay.write.back.drain.own_uploads import MOST, OwnUploads

NAME = ObjectName("ckpt", "a/key")


class _Others:
    """Workers with uploads of their own."""

    def __init__(self, *others: OwnUploads) -> None:
        self.others = dict(enumerate(others))
        self.calls = 0

    async def call_all(self, request: Document) -> dict[int, Document]:
        self.calls += 1
        assert request["kind"] == "own_uploads"
        return {number: each.receive(request) for number, each in self.others.items()}


async def _uploads(*ids: str, others: _Others | None = None) -> OwnUploads:
    uploads = OwnUploads(cast("Peers", others) if others is not None else Peers())
    for each in ids:
        await uploads.add(NAME, each)
    return uploads


async def test_uploads_of_all_workers_are_found() -> None:
    others = _Others(await _uploads("b"), await _uploads("c"))
    uploads = await _uploads("a", others=others)
    assert await uploads.find(["a", "b", "c", "d"]) == {"a", "b", "c"}
    assert (await uploads.find([]), others.calls) == (set(), 1)
    assert await (await _uploads("a")).find(["a", "b"]) == {"a"}
    with pytest.raises(PeerUnavailable):
        uploads.receive({})


async def test_the_oldest_are_forgotten() -> None:
    uploads = await _uploads(*map(str, range(MOST + 1)))
    assert await uploads.find(["0", "1", str(MOST)]) == {"1", str(MOST)}


async def test_what_an_earlier_run_has_left_is_aborted(tmp_path: Path) -> None:
    first = Journal.open(tmp_path / "j", "first")
    uploads = OwnUploads(Peers(), first)
    for each in ("completed", "left", "kept"):
        await uploads.add(NAME, each)
    await uploads.end("completed")
    await first.close()

    second, aborted, is_gone = Journal.open(tmp_path / "j", "second"), list[str](), False

    async def abort(name: ObjectName, upload_id: str) -> bool:
        assert name == NAME
        aborted.append(upload_id)
        return is_gone

    for _ in range(2):  # another worker of the run has created one meanwhile, and forgets nothing of the others
        uploads = OwnUploads(Peers(), second, abort)
        await uploads.load_left()
        assert uploads.has_left
        assert await uploads.find(["completed", "left", "kept", "new"]) == {"left", "kept"}
        await OwnUploads(Peers(), second).add(NAME, "new")
    await uploads.abort_left()
    assert (aborted, uploads.has_left) == (["left"], True), "the origin does not answer: the others wait, too"
    is_gone = True
    await uploads.abort_left()
    assert (aborted, uploads.has_left) == (["left", "kept", "left"], False), "one that is refused holds up no other"
    UploadNotes(str(tmp_path / "j" / "own-uploads"), 1).add(NAME, "late")
    await uploads.abort_left()
    assert (aborted, uploads.has_left) == (["left", "kept", "left"], False), "the file is read once"
    await second.close()
