"""The record writer: how long a journal that has failed is left alone. Its records: scenarios/test_write_back.py."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.origin.origins import Origins
from forebay.storage.journal.journal import Journal, JournalBody
from forebay.storage.journal.log_writer import JournalFailed, RecordId
from forebay.storage.journal.record_origins import RecordOrigins
from forebay.write.back.accept.body_store import BodyStore, StoredBody
from forebay.write.back.accept.record_writer import FAILURE_SECONDS, KeptBody, Publisher, RecordWriter, with_type
from forebay.write.back.pending.accepted_write import AbortedUpload
from forebay.write.body_digest import BodyDigest
from forebay.write.forward_request import WriteContext
from forebay.write.forwarder import Forwarder

ENTRY = AbortedUpload(ObjectName("b", "k"), "upload")


class _Rig:
    """A journal without a disk, and two clocks that are set by hand."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1e9, 1e3
        self.writer = RecordWriter(
            cast("Journal", self),
            cast("BodyStore", None),
            cast("RecordOrigins", SimpleNamespace(named=lambda _: {})),
            cast("Origins", None),
            cast("Forwarder", None),
            cast("Publisher", None),
            lambda: self.wall,
            lambda: self.monotonic,
            lambda _: None,
        )

    def stamp(self) -> int:
        return 0

    def submit(self, _document: object, _payload: bytes) -> asyncio.Future[RecordId]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(JournalFailed("the journal can't be written: EIO", voided=True))
        return future

    async def fail(self) -> None:
        context = SimpleNamespace(forward=SimpleNamespace(target=SimpleNamespace(name=ENTRY.name)))
        with pytest.raises(S3Error, match="SlowDown"):
            await self.writer.write(cast("WriteContext", context), ENTRY)


@pytest.mark.parametrize("set_by", [-3600.0, 0.0, 3600.0])
async def test_a_failure_counts_for_seconds_whatever_the_wall_clock_does(set_by: float) -> None:
    rig, seen = _Rig(), list[bool]()
    for seconds in (0.0, FAILURE_SECONDS - 0.1, 0.2):
        rig.monotonic += seconds
        seen.append(rig.writer.has_failed)
        if not seconds:
            await rig.fail()
            rig.wall += set_by
    assert seen == [False, True, False]


class _BodyFile:
    """What becomes of a body's file."""

    def __init__(self) -> None:
        self.fate = "left"

    def release(self) -> None:
        self.fate = "released"

    async def discard(self) -> None:
        self.fate = "discarded"


@pytest.mark.parametrize(
    ("failure", "fate", "raised"),
    [
        (None, "released", None),
        (JournalFailed("EIO", voided=True), "discarded", S3Error),
        (JournalFailed("EIO", voided=False), "left", S3Error),
        (asyncio.CancelledError(), "left", asyncio.CancelledError),
        (RuntimeError("a defect of the log's"), "left", RuntimeError),
    ],
)
async def test_a_body_is_kept_as_long_as_its_record_may_count(
    failure: BaseException | None, fate: str, raised: type[BaseException] | None
) -> None:
    async def append(_entry: object, _payload: bytes) -> RecordId:
        if failure is not None:
            raise failure
        return RecordId("l", 0)

    assert await _fate_and_failure(append, is_handed_over=True) == (fate, raised)


async def test_a_body_without_a_record_is_removed() -> None:
    async def refuse(_entry: object, _payload: bytes) -> RecordId:
        raise S3Error("InvalidRequest")

    assert await _fate_and_failure(refuse, is_handed_over=False) == ("discarded", S3Error)


async def _fate_and_failure(
    append: Callable[[object, bytes], Awaitable[RecordId]], *, is_handed_over: bool
) -> tuple[str, type[BaseException] | None]:
    """What becomes of a body, and what is raised, where its record is appended so, or refused before."""
    file = _BodyFile()
    stored = StoredBody(b"", cast("JournalBody", file), None, cast("BodyDigest", None), b"", "")
    try:
        async with KeptBody(stored, append, lambda reason: S3Error("SlowDown", reason)) as kept:
            await (kept.append(ENTRY) if is_handed_over else append(ENTRY, b""))
    except BaseException as error:
        return file.fate, type(error)
    return file.fate, None


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ((), "binary/octet-stream"),
        ((("content-type", ""),), "binary/octet-stream"),
        ((("Content-Type", " "),), "binary/octet-stream"),
        ((("Content-Type", "text/plain"),), "text/plain"),
    ],
)
def test_an_object_has_a_content_type(sent: tuple[tuple[str, str], ...], kept: str) -> None:
    others = ("x-amz-meta-empty", "")
    typed = {name.lower(): value for name, value in with_type((others, *sent))}
    assert typed == {"x-amz-meta-empty": "", "content-type": kept}
