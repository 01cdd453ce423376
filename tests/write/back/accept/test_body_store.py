"""The body store: the same bytes, their hashes, and nothing left behind by a body that broke off."""

import asyncio
import errno
import os
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.buffers import Buffer, Piece
from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.protocol.body.crc64 import crc64
from forebay.protocol.body.payload import PayloadReader, UnsignedPayload
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.journal_files import JournalFiles
from forebay.write.back.accept.body_store import SMALL, BodyStore, HashedSource
from forebay.write.incoming_body import IncomingBody
from harness.fake.checksums import digest_of
from harness.memory_exchange import MemoryBody

PIECE = 100_000


class Files(JournalFiles):
    """Writes of bodies, or syncs of them, wait for `turn`; writes fail once there is a `failure`."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.waiting = threading.Event(), threading.Event()
        self.turn.set()
        self.waits = "write"
        self.failure: OSError | None = None
        self.calls: list[str] = []

    def write(self, fd: int, pieces: Sequence[Buffer | bytes], offset: int) -> None:
        self._wait("write")
        if self.failure is not None:
            raise self.failure
        super().write(fd, pieces, offset)
        self.calls.append("write")

    def sync(self, fd: int) -> None:
        self._wait("sync")
        super().sync(fd)
        self.calls.append("sync")

    def _wait(self, call: str) -> None:
        if call == self.waits:
            self.waiting.set()
            assert self.turn.wait(60)

    def close(self, fd: int) -> None:
        self.calls.append("close")
        super().close(fd)


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
async def journal(tmp_path: Path, files: Files) -> AsyncIterator[Journal]:
    journal = Journal.open(tmp_path / "j", "family", files)
    yield journal
    await journal.close()
    assert list((tmp_path / "j" / "bodies").iterdir()) == []


def incoming(content: bytes, **headers: str) -> IncomingBody:
    pieces = [content[at : at + PIECE] for at in range(0, len(content), PIECE)]
    fields = CIMultiDictProxy(CIMultiDict({"Content-Length": str(len(content)), **headers}))
    return IncomingBody(MemoryBody(pieces), form := UnsignedPayload(), PayloadReader(form, None, fields))


def md5_of(content: bytes) -> bytes:
    return md5(content, usedforsecurity=False).digest()


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, 5 << 20])
@pytest.mark.parametrize("is_declared", [False, True])
async def test_bodies_are_stored_and_hashed(journal: Journal, size: int, is_declared: bool) -> None:
    content = os.urandom(size)
    headers = {"Content-MD5": b64encode(md5_of(content)).decode()} if is_declared else {}
    body = incoming(content, **headers)
    stored = await BodyStore(journal, lambda: 0).store(body, str, verified_md5=body.declared_md5)
    assert (stored.md5, stored.digest.crc, stored.digest.size) == (md5_of(content), crc64(content), size)
    assert (stored.ref is None) == (size <= SMALL)
    if stored.ref is not None:
        assert await journal.read(stored.ref, Span(0, size)) == content
    else:
        assert stored.payload == content
    await stored.discard()


@pytest.mark.parametrize(("pending", "is_small"), [(90, True), (91, False)])
async def test_small_bodies_have_files_above_a_bound(journal: Journal, pending: int, is_small: bool) -> None:
    """Every worker has the others in memory."""
    store = BodyStore(journal, lambda: pending)
    store.most_in_memory = 100
    stored = await store.store(incoming(b"ten bytes."), str)
    assert (stored.ref is None, stored.md5) == (is_small, md5_of(b"ten bytes."))
    if stored.ref is not None:
        assert await journal.read(stored.ref, Span(0, 10)) == memoryview(b"ten bytes.")
    empty = await store.store(incoming(b""), str)
    assert (empty.ref, store.takes_small(10), store.takes_small(0)) == (None, is_small, True)
    await stored.discard()


async def test_a_body_with_another_hash_leaves_nothing(journal: Journal) -> None:
    with pytest.raises(S3Error, match="BadDigest"):
        await BodyStore(journal, lambda: 0).store(
            incoming(bytes(3 << 20), **{"Content-MD5": b64encode(bytes(16)).decode()}), str
        )


async def test_a_full_disk_is_said(journal: Journal, files: Files) -> None:
    files.failure = OSError(errno.ENOSPC, "full")
    with pytest.raises(OSError, match="full"):
        await BodyStore(journal, lambda: 0).store(incoming(bytes(3 << 20)), str)


@pytest.mark.parametrize("last", ["write", "sync"])
async def test_a_file_is_closed_after_its_last_call(journal: Journal, files: Files, last: str) -> None:
    files.waits = last
    files.turn.clear()
    storing: asyncio.Future[Any] = asyncio.ensure_future(  # noqa: TID251 # awaited below
        BodyStore(journal, lambda: 0).store(incoming(bytes(8 << 20)), str)
    )
    await asyncio.to_thread(files.waiting.wait, 60)
    storing.cancel()
    await asyncio.wait([storing], timeout=0.1)
    assert "close" not in files.calls
    files.turn.set()
    with pytest.raises(asyncio.CancelledError):
        await storing
    assert files.calls[-2:] == [last, "close"]


@pytest.mark.parametrize("algorithm", ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"])
async def test_a_copied_part_is_hashed_as_it_is_read(algorithm: str) -> None:
    class Source:
        async def pieces(self) -> AsyncIterator[Piece]:
            yield b"some "
            yield b"bytes"

    source = HashedSource(Source(), algorithm)
    assert b"".join([bytes(piece) async for piece in source.pieces()]) == b"some bytes"
    assert source.header == (f"x-amz-checksum-{algorithm}", digest_of(algorithm, b"some bytes"))
