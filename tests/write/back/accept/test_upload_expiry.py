"""Upload expiry: by age, by what all uploads take, and never while a part is being received."""

from typing import cast

import pytest

from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.storage.journal.log_writer import JournalFailed, RecordId
from forebay.write.back.accept.upload_expiry import IDLE_SECONDS, UploadExpiry, idle_uploads
from forebay.write.back.pending.accepted_write import AcceptedPart, AcceptedUpload
from forebay.write.back.pending.pending_uploads import PendingPart, PendingUpload, PendingUploads

NAME, DAY = ObjectName("b", "k"), 86_400.0


def _uploads(*facts: tuple[str, float, int]) -> PendingUploads:
    """Uploads by their ids, with one part of so many bytes at a time; 0: without a part."""
    uploads = PendingUploads()
    for number, (upload_id, at, size) in enumerate(facts):
        uploads.create(RecordId("l", 2 * number), AcceptedUpload(NAME, upload_id, (), 0.0 if size else at))
        if size:
            part = AcceptedPart(NAME, upload_id, 1, '"e"', size, (), None, (), at)
            uploads.add(PendingPart(RecordId("l", 2 * number + 1), part, ()))
    return uploads


@pytest.mark.parametrize(
    ("now", "bound", "expired"),
    [
        (DAY - 1, 1000, []),
        (DAY, 1000, ["empty"]),
        (DAY + 10, 1000, ["empty", "old"]),
        (10 + IDLE_SECONDS, 59, ["empty", "old"]),
        (10 + IDLE_SECONDS, 9, ["empty", "old"]),
        (20 + IDLE_SECONDS, 50, ["empty", "old"]),
        (20 + IDLE_SECONDS, 49, ["empty", "old", "new"]),
        (9, 0, []),
    ],
)
def test_uploads_expire_by_age_and_by_size(now: float, bound: float, expired: list[str]) -> None:
    uploads = _uploads(("new", 20.0, 50), ("old", 10.0, 10), ("empty", 0.0, 0))
    found = idle_uploads(uploads.by_id.values(), now, DAY, bound)
    assert [each.upload.upload_id for each in found] == expired


class _Rig:
    def __init__(self, answers: dict[int, Document] | None = None) -> None:
        self.uploads = _uploads(("u", 0.0, 10), ("v", 0.0, 10))
        self.aborted: list[str] = []
        self.expired, self.failure = 0, False
        self.others, self._answers = dict(answers or {}), answers or {}
        self.expiry = UploadExpiry(
            self.uploads, cast("Peers", self), self._abort, lambda: DAY, max_age=DAY, size=1000, on_expired=self._count
        )

    async def call_all(self, _request: Document) -> dict[int, Document]:
        return {number: answer for number, answer in self._answers.items() if answer}

    async def _abort(self, upload: PendingUpload) -> None:
        if self.failure:
            raise JournalFailed("EIO", voided=True)
        self.aborted.append(upload.upload.upload_id)
        self.uploads.end(upload.upload.upload_id)

    def _count(self) -> None:
        self.expired += 1


async def test_an_upload_that_gets_a_part_is_left_alone() -> None:
    rig = _Rig()
    with rig.expiry.receiving("u"), rig.expiry.receiving("u"):
        assert rig.expiry.receive({"uploads": ["v", "u"]}) == {"busy": ["u"]}
        await rig.expiry.expire()
    assert (rig.aborted, rig.expired) == (["v"], 1)
    assert rig.expiry.receive({"uploads": ["u"]}) == {"busy": []}
    await rig.expiry.expire()
    assert rig.aborted == ["v", "u"]


async def test_every_worker_is_asked() -> None:
    rig = _Rig({1: {"busy": []}, 2: {"busy": ["v"]}})
    await rig.expiry.expire()
    assert rig.aborted == ["u"]
    silent = _Rig({1: {"busy": []}, 2: {}})
    await silent.expiry.expire()
    assert silent.aborted == []


async def test_a_journal_that_fails_keeps_the_upload(caplog: pytest.LogCaptureFixture) -> None:
    rig = _Rig()
    rig.failure = True
    await rig.expiry.expire()
    assert (rig.aborted, rig.expired) == ([], 0)
    assert "can't be aborted" in caplog.text
