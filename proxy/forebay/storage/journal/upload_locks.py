"""Upload locks: one request of the node at a time decides about the end of an upload at the origin.

    acquired at once, or looked for every PAUSE ──> held ──> released, also by the end of the process

A lock is one byte of a file that all workers open, so the kernel releases it however its holder ends. Each holder has a
descriptor of its own: locks of one process exclude each other as well.

https://man7.org/linux/man-pages/man2/fcntl_locking.2.html (open file description locks)
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from forebay.protocol.body.crc64 import crc64
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout

PAUSE: Final = 0.05
"""Seconds between two attempts."""

_log = logging.getLogger(__name__)


class UploadLocks:
    """The locks of one worker. Where the file can't be locked, as on a file system that is read-only, nobody waits."""

    def __init__(self, files: JournalFiles, layout: JournalLayout) -> None:
        self._files = files
        self._layout = layout

    @asynccontextmanager
    async def held(self, upload_id: str, wait: Callable[[Awaitable[None]], Awaitable[None]]) -> AsyncGenerator[None]:
        """A context in which no other has the lock of an upload. `wait`: waits, or raises in place of that."""
        lock = self._open()
        try:
            if lock is not None and not self._is_locked(lock, upload_id):
                await wait(self._acquire(lock, upload_id))
            yield
        finally:
            if lock is not None:
                self._files.close(lock)

    def _open(self) -> int | None:
        try:
            return self._files.open_lock(self._layout.uploads_lock)
        except OSError as error:
            _log.warning("%s can't be opened: %s", self._layout.uploads_lock, error.strerror)
            return None

    async def _acquire(self, lock: int, upload_id: str) -> None:
        while not self._is_locked(lock, upload_id):  # noqa: ASYNC110 # the kernel tells nobody that one is free
            await asyncio.sleep(PAUSE)

    def _is_locked(self, lock: int, upload_id: str) -> bool:
        """Whether the lock is held now, or can't be."""
        try:
            return self._files.lock_byte(lock, crc64(upload_id.encode()) >> 1)
        except OSError as error:
            _log.warning("%s can't be locked: %s", self._layout.uploads_lock, error.strerror)
            return True
