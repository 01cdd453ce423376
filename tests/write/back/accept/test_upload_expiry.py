"""Upload expiry: by age, by what all uploads take, and never while a part is being received."""

from typing import cast

import pytest

from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.storage.journal.log_writer import JournalFailed, RecordId
from forebay.storage.journal.node_clock import time_of
from forebay.write.back.accept.upload_expiry import IDLE_SECONDS, IdleUpload, UploadExpiry, expired_uploads
from forebay.write.back.pending.accepted_write import AcceptedPart, AcceptedUpload
from forebay.write.back.pending.pending_uploads import PendingPart, PendingUpload, PendingUploads, new_upload_id

NAME, DAY, RUN = ObjectName("b", "k"), 86_400.0, 2
U, V = "u", "v"


def _time(seconds: float, run: int = RUN) -> int:
    return time_of(run, int(seconds * 1e9))


def _uploads(*facts: tuple[str, int, int], accepted_at: float = 0.0) -> PendingUploads:
    """Uploads by names, with one part of so many bytes at a time on the node's clock; 0: without a part."""
    uploads = PendingUploads()
    for number, (name, at, size) in enumerate(facts):
        upload_id = new_upload_id(0 if size else at)
        key = ObjectName("b", name)
        uploads.create(RecordId("l", 2 * number), AcceptedUpload(key, upload_id, (), accepted_at))
        if size:
            part = AcceptedPart(key, upload_id, 1, '"e"', size, (), None, (), accepted_at, 0, at)
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
    uploads = _uploads(("new", 0, 50), ("old", 0, 10), ("empty", 0, 0))
    since = {"new": 20.0, "old": 10.0, "empty": 0.0}
    idle = [IdleUpload(each, now - since[each.upload.name.key]) for each in uploads.by_id.values()]
    assert [each.upload.upload.name.key for each in expired_uploads(idle, DAY, bound)] == expired


class _Rig:
    """Of run 2, which has begun at 0; uploads `u` and `v` are as old."""

    def __init__(
        self, answers: dict[int, Document] | None = None, *, run: int = RUN, accepted_at: float = 0.0, now: float = 0.0
    ) -> None:
        """`run`: of the uploads; `accepted_at`: of them, `now`: of the start, both on the system's clock."""
        self.uploads = _uploads((U, _time(0, run), 10), (V, _time(0, run), 10), accepted_at=accepted_at)
        self.ids = {each.upload.name.key: upload_id for upload_id, each in self.uploads.by_id.items()}
        self.aborted: list[str] = []
        self.expired, self.failure, self.calls = 0, False, 0
        self.ends_meanwhile = ""
        self.seconds = 0.0
        """On the node's clock."""
        self.now = now
        self.others, self._answers = dict(answers or {}), answers or {}
        self.expiry = UploadExpiry(
            self.uploads,
            cast("Peers", self),
            self._abort,
            lambda: _time(self.seconds),
            lambda: self.now,
            max_age=DAY,
            size=1000,
            on_expired=self._count,
        )

    async def expire(self, seconds: float = DAY) -> list[str]:
        """So many seconds after the start. Returns what was aborted so far."""
        self.seconds = seconds
        await self.expiry.expire()
        return self.aborted

    async def call_all(self, _request: Document) -> dict[int, Document]:
        self.calls += 1
        if self.ends_meanwhile:
            self.uploads.end(self.ids[self.ends_meanwhile])
        return {
            number: {"busy": [self.ids[each] for each in answer["busy"]]}
            for number, answer in self._answers.items()
            if answer
        }

    async def _abort(self, upload: PendingUpload) -> None:
        if self.failure:
            raise JournalFailed("EIO", voided=True)
        self.aborted.append(upload.upload.name.key)
        self.uploads.end(upload.upload.upload_id)

    def _count(self) -> None:
        self.expired += 1


async def test_an_upload_that_gets_a_part_is_left_alone() -> None:
    rig = _Rig()
    u, v = rig.ids[U], rig.ids[V]
    with rig.expiry.receiving(u), rig.expiry.receiving(u):
        assert rig.expiry.receive({"uploads": [v, u]}) == {"busy": [u]}
        assert await rig.expire() == [V]
    with rig.expiry.receiving(u):
        with rig.expiry.receiving(u):
            pass
        assert rig.expiry.receive({"uploads": [u]}) == {"busy": [u]}, "one of two parts has come"
    assert rig.expired == 1
    assert rig.expiry.receive({"uploads": [u]}) == {"busy": []}
    assert await rig.expire() == [V, U]


async def test_every_worker_is_asked() -> None:
    rig = _Rig({1: {"busy": []}, 2: {"busy": [V]}})
    assert await rig.expire() == [U]
    silent = _Rig({1: {"busy": []}, 2: {}})
    assert (await silent.expire(DAY - 1), silent.calls) == ([], 0), "none has expired"
    assert (await silent.expire(), silent.calls) == ([], 1)


async def test_an_upload_that_ends_meanwhile_is_not_aborted(caplog: pytest.LogCaptureFixture) -> None:
    rig = _Rig()
    rig.ends_meanwhile = U
    assert await rig.expire() == [V]
    assert f"the upload {rig.ids[V]} of b/v, of 1 parts in 10B, was unfinished for 86400 s" in caplog.text


async def test_a_journal_that_fails_keeps_the_upload(caplog: pytest.LogCaptureFixture) -> None:
    rig = _Rig()
    rig.failure = True
    assert (await rig.expire(), rig.expired) == ([], 0)
    assert "can't be aborted" in caplog.text


async def test_a_system_clock_that_jumps_aborts_nothing() -> None:
    assert await _Rig(accepted_at=-DAY).expire(DAY - 1) == []
    rig = _Rig()
    rig.now = 100 * DAY
    assert await rig.expire(DAY - 1) == []
    rig.now = -100 * DAY
    assert await rig.expire(DAY) == [U, V]


@pytest.mark.parametrize(
    ("now", "seconds", "expired"),
    [
        (DAY, IDLE_SECONDS - 1, []),
        (DAY, IDLE_SECONDS, [U, V]),
        (DAY - IDLE_SECONDS - 2, IDLE_SECONDS + 1, []),
        (DAY - IDLE_SECONDS - 2, IDLE_SECONDS + 2, [U, V]),
        (-DAY, DAY - 1, []),
        (-DAY, DAY, [U, V]),
    ],
)
async def test_a_restart_believes_the_system_clock_later(now: float, seconds: float, expired: list[str]) -> None:
    """Clients can go on with their uploads first. A clock that was set back says nothing."""
    rig = _Rig(run=RUN - 1, now=now)
    assert await rig.expire(seconds) == expired


async def test_a_moved_upload_in_use_is_left_alone() -> None:
    """Its parts are not here, so its requests say whether it is in use."""
    rig = _Rig()
    rig.uploads.by_id[rig.ids[U]].origin_id = "there"
    rig.seconds = DAY / 2
    rig.expiry.touch(rig.ids[U])
    assert await rig.expire(DAY * 3 / 2 - 1) == [V]
    assert rig.expiry.receive({"uploads": [rig.ids[U]]}) == {"busy": [rig.ids[U]]}
    assert await rig.expire(DAY * 3 / 2) == [V, U]
    assert rig.expiry.receive({"uploads": [rig.ids[U]]}) == {"busy": []}
