"""The record writer: how long a journal that has failed is left alone. Its records: scenarios/test_write_back.py."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.log_writer import JournalFailed, RecordId
from forebay.storage.journal.record_origins import RecordOrigins
from forebay.write.back.accepted_write import AbortedUpload
from forebay.write.back.record_writer import FAILURE_SECONDS, Publisher, RecordWriter
from forebay.write.forward_request import WriteContext
from forebay.write.forwarder import Forwarder

ENTRY = AbortedUpload(ObjectName("b", "k"), "upload")


class _Rig:
    """A journal without a disk, and two clocks that are set by hand."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1e9, 1e3
        self.writer = RecordWriter(
            cast("Journal", self),
            cast("RecordOrigins", SimpleNamespace(named=lambda _: {})),
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
