"""The directory of the SSD tier: its owner, its layout, and how its content is discarded.

    forebay.lock     flock'ed by the one Forebay that owns the directory; holds the family of its processes
    keeper.lock      flock'ed by the one process of them that does the housekeeping
    reclaim.lock     flock'ed while a process reclaims a segment
    FORMAT           JSON: version of the layout, names of the origins, salt of the addresses (directory_format.py)
    STATE            JSON: how the directory was left (recovery.py)
    index/           LMDB (index.py)
    segments/        NNNNNNNNNN.seg (segments.py)
    touched          reference bytes (reference_bits.py)
    discarded/       content on its way out; the writer deletes it, a file at a time

Ownership: one process that shares with nobody holds forebay.lock exclusively. Processes of one family (the workers
of one Forebay) each hold it shared, after the first of them has held it exclusively for recovery. So a process that
gets the exclusive lock has the directory to itself, and only such a process may discard. The kernel releases the locks
of a process that dies.

Invariants:
- FORMAT is written last when the directory is initialised and removed first when its content is discarded: without
  FORMAT there is no content;
- a directory that is not empty and has no forebay.lock is somebody else's, and is left alone.
"""

import contextlib
import fcntl
import json
import os
import secrets
from pathlib import Path
from threading import Event
from typing import Final, Self

from forebay.core.errors import SsdInUse, SsdUnusable
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.durable_files import replace_file, sync_directory
from forebay.storage.ssd.directory_format import DirectoryFormat, first_format, format_document, read_document

JOIN_ATTEMPTS: Final = 100
JOIN_PAUSE: Final = 0.05
_UNREMARKABLE: Final = frozenset({"lost+found"})  # what a freshly made file system holds


class SsdDirectory:
    """A directory that this process has claimed. Made by `claim`, ended by `release`."""

    def __init__(self, path: Path, lock: int, *, exclusive: bool) -> None:
        self.path = path
        self.index = path / "index"
        self.segments = path / "segments"
        self.references = path / "touched"
        self.state = path / "STATE"
        self.discarded = path / "discarded"
        self.is_exclusive = exclusive
        """Whether no other process can have the directory open, so that content may be discarded."""
        self._format = path / "FORMAT"
        self._lock = lock
        self._keeper_lock: int | None = None
        self._reclaim_lock: int | None = None

    @classmethod
    def claim(cls, path: Path, family: str | None) -> Self:
        """Locks the directory, created if need be. Raises SsdUnusable.

        With a `family`, other processes of that family may claim it as well, once the first has called `share`.
        """
        try:
            _prepare(path)
            lock = os.open(path / "forebay.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SsdUnusable(f"{path}: {error.strerror}") from error
        try:
            exclusive = _lock_file(lock, family)
            if exclusive:
                os.ftruncate(lock, 0)
                os.pwrite(lock, (family or "").encode(), 0)
        except OSError as error:
            os.close(lock)
            raise SsdUnusable(f"{path}: {error.strerror}") from error
        except SsdInUse:
            os.close(lock)
            raise SsdInUse(f"{path}: in use by another Forebay") from None
        return cls(path, lock, exclusive=exclusive)

    def share(self) -> None:
        """Admits the other processes of the family, after recovery."""
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self.is_exclusive = False

    def is_last(self) -> bool:
        """Returns whether no other process has the directory open (any more)."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def elect(self) -> bool:
        """Returns whether this process is the one that does the housekeeping. Once it is, it remains so."""
        if self._keeper_lock is None:
            self._keeper_lock = self._try_lock("keeper.lock")
        return self._keeper_lock is not None

    def lock_reclaim(self) -> bool:
        """Returns whether this process may reclaim a segment. If so, no other process may until `unlock_reclaim`."""
        if self._reclaim_lock is None:
            self._reclaim_lock = self._try_lock("reclaim.lock")
        return self._reclaim_lock is not None

    def unlock_reclaim(self) -> None:
        """Lets another process reclaim."""
        if self._reclaim_lock is not None:
            os.close(self._reclaim_lock)
            self._reclaim_lock = None

    def _try_lock(self, name: str) -> int | None:
        try:
            lock = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return None
        return lock

    def release(self) -> None:
        """Unlocks the directory."""
        self.unlock_reclaim()
        if self._keeper_lock is not None:
            os.close(self._keeper_lock)
            self._keeper_lock = None
        os.close(self._lock)

    def read_format(self) -> DirectoryFormat | None:
        """Reads FORMAT; None if it is missing, damaged, or of another layout. Raises OSError if it can't be read."""
        try:
            return read_document(json.loads(self._format.read_bytes()))
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def read_layout(self) -> int | None:
        """Reads the version of the layout from FORMAT; None if FORMAT is missing or damaged."""
        try:
            return int(json.loads(self._format.read_bytes())["layout"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    def initialise(self, origins: CacheOrigins) -> DirectoryFormat:
        """Begins with no content. Raises OSError."""
        self.segments.mkdir(mode=0o700, exist_ok=True)
        self.index.mkdir(mode=0o700, exist_ok=True)
        begun = first_format(origins)
        self.write_format(begun)
        return begun

    def write_format(self, content: DirectoryFormat) -> None:
        """Writes FORMAT. Raises OSError."""
        replace_file(self._format, json.dumps(format_document(content)).encode())

    def content_size(self) -> int:
        """Returns the bytes of disk that the content takes, as far as they can be counted."""
        size = 0
        for content in (self.index, self.segments):
            for folder, _, files in os.walk(content):
                for name in files:
                    with contextlib.suppress(OSError):
                        size += 512 * Path(folder, name).lstat().st_blocks
        return size

    def disown(self) -> None:
        """Removes FORMAT, so that no later opening believes the content. Raises OSError."""
        self._format.unlink(missing_ok=True)
        sync_directory(self.path)

    def discard(self) -> None:
        """Discards all content, at once for any size. Raises OSError."""
        self.disown()
        heap = self.discarded / secrets.token_hex(8)
        for content in (self.index, self.segments, self.references):
            if content.exists():
                heap.mkdir(mode=0o700, parents=True, exist_ok=True)
                content.rename(heap / content.name)
        self.state.unlink(missing_ok=True)

    def replace_index(self, fresh: Path) -> None:
        """Puts the folder `fresh` in the place of the index, which is discarded. Raises OSError."""
        if self.index.exists():
            heap = self.discarded / secrets.token_hex(8)
            heap.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.index.rename(heap / self.index.name)
        fresh.rename(self.index)
        sync_directory(self.path)

    def delete_discarded(self) -> bool:
        """Deletes one file or folder of discarded content. Returns whether there may be more.

        Never fails: what can't be deleted stays.
        """
        for folder, folders, files in os.walk(self.discarded, topdown=False):
            with contextlib.suppress(OSError):
                if files:
                    Path(folder, files[0]).unlink()
                    return True
                if not folders or not any(Path(folder, name).exists() for name in folders):
                    Path(folder).rmdir()
                    return True
        return False


def check_content(path: Path) -> None:
    """Raises SsdUnusable for a directory with content that is not a Forebay's, and OSError. Changes nothing."""
    names = set(os.listdir(path)) - _UNREMARKABLE  # noqa: PTH208 -- names are wanted, not paths
    if names and "forebay.lock" not in names:
        raise SsdUnusable(f"{path}: neither empty nor a Forebay's directory")


def _prepare(path: Path) -> None:
    with contextlib.suppress(FileExistsError):  # what is no directory can't be listed either, which says so
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_content(path)
    path.chmod(0o700)


def _lock_file(lock: int, family: str | None) -> bool:
    """Locks forebay.lock and returns whether exclusively. Raises SsdInUse if another Forebay has it."""
    for _ in range(1 if family is None else JOIN_ATTEMPTS):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if family is not None:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if os.pread(lock, 256, 0) == family.encode():
                    return False
                break
            Event().wait(JOIN_PAUSE)  # the first of the family is recovering the directory
    raise SsdInUse
