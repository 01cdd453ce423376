"""The run record: which Forebay of this host was the last to begin serving an origin.

    <state directory>/run-<fingerprint of a name of the origin>

        0123456789abcdef0123456789abcdef              the id of the run
        0123456789abcdef0123456789abcdef detached     a worker of it has served without the SSD tier's directory

An origin with a cache_id has two names (storage.cache_origin), so two such files, which say the same: a run that knows
the origin by either name must find the other's. Where they don't agree, the origin or its name has changed. Several
origins have all of their names' files, and the same holds: another run may have served one of them since.

It lies outside the SSD tier's directory, because it also names runs that could not use that: without `[ssd]`, or with
the directory locked, full or unreadable. The directory does not know the writes of such a run.

    start   ──> the record of the run before is read and overwritten, in one step under a lock, before a byte is served
    serving ──> a worker without the directory marks the run detached before it serves a byte; it stays so
    close   ──> nothing here: the directory's STATE names the run that closed it (ssd/recovery.py)

So heads in the directory are trusted if and only if the run that closed it is the one that this record named when the
present run began, the present run is still named here, and neither is detached: then no other run has served in
between. All else (no record, a record that can't be written, another host, two at once, a power cut) ends in distrust,
which costs a conditional request for each object.

The record is overwritten in place, which needs no free space, and fsync'ed. One that can't be overwritten is removed.
If that fails as well, it is tried again while serving (`remove_stale_record`), as a stale record could make a later run
trust the heads.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.storage.cache_origin import CacheOrigin, origin_fingerprint
from forebay.storage.durable_files import make_directory, sync_directory

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds between two attempts to remove a stale record: they double."""
_DETACHED: Final = " detached"
_LONGEST: Final = 256

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One run of a Forebay, of all its workers: from its start to its end. Made by `begin_run`."""

    id: str
    """Random, 32 hexadecimal digits."""
    records: tuple[str, ...]
    """The paths of the run record, one for each name of the origin; none if there is no state directory."""
    predecessor: str
    """The run that was the last before this one; empty: not known."""
    doubt: str
    """Why the predecessor is not known."""
    is_stale: bool = False
    """Whether an earlier run's record may be there still."""

    def doubt_about(self, closed_by: str) -> str | None:
        """Returns the reason why the heads of the run `closed_by` can't be trusted; None: no other run has served
        since."""
        if not self.predecessor:
            return self.doubt
        if closed_by != self.predecessor:
            return "another run of a Forebay was the last to serve"
        for record in self.records:
            try:
                recorded = Path(record).read_text(encoding="ascii", errors="replace")
            except OSError as error:
                return f"the run record {record} can't be read: {error.strerror}"
            if recorded == self.id + _DETACHED:
                return "this run has served without it"
            if recorded != self.id:
                return "another run has begun since"
        return None

    def detach(self) -> None:
        """Marks that this run serves without the SSD tier's directory. Before it serves a byte, in any worker."""
        for record in self.records:
            self._detach(Path(record))

    def _detach(self, path: Path) -> None:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if os.pread(fd, _LONGEST, 0) == self.id.encode():
                    _overwrite(fd, self.id + _DETACHED)
            finally:
                os.close(fd)
        except OSError as error:
            if not _remove(path):
                _log.error("the run record %s can't be changed: %s", path, error.strerror)


def begin_run(state_dir: str | None, *origins: CacheOrigin) -> NodeRun:
    """Begins a run: reads the record of the run before, and replaces it. Never raises.

    Every start calls it once, whatever its configuration, before a byte is served. `state_dir`: None if there is none.
    """
    run = secrets.token_hex(16)
    if state_dir is None:
        return NodeRun(run, (), "", "there is no state directory (server.state_dir)")
    names = dict.fromkeys(name for origin in origins for name in origin.names)
    paths = [Path(state_dir) / f"run-{origin_fingerprint(name)}" for name in names]
    before: set[str] = set()
    doubt, is_stale = "", False
    for path in paths:  # each, whatever becomes of the others
        try:
            make_directory(path.parent)
            recorded = _replace(path, run)
        except OSError as error:
            doubt = f"the run record {path} can't be written: {error.strerror}"
            if not _remove(path):
                is_stale = True
                _log.error("%s; nor can an earlier one be removed, which is tried again", doubt)
            continue
        before.add(recorded)
        if not recorded:
            doubt = doubt or f"there was no run record ({path})"
        elif recorded.endswith(_DETACHED):
            doubt = doubt or "the run before has served without it"
    if not doubt and len(before) > 1:
        doubt = "another run has served this origin under another name, or one of these origins without the others"
    return NodeRun(run, tuple(map(str, paths)), "" if doubt else before.pop(), doubt, is_stale)


async def remove_stale_record(run: NodeRun) -> None:
    """Removes the record of an earlier run that could not be removed at the start. Returns once it is gone.

    Until then a later run may take what that earlier one left for the last that was served. A record that another run
    has written meanwhile may be removed as well: that costs trust, never correctness.
    """
    pause = FIRST_PAUSE
    stale = list(run.records) if run.is_stale else []
    while stale := [record for record in stale if not _remove(Path(record))]:
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _replace(path: Path, run: str) -> str:
    """Puts `run` into the record and returns its text before; "" if there was none. Raises OSError."""
    is_new = not path.exists()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        before = os.pread(fd, _LONGEST, 0).decode("ascii", "replace")
        _overwrite(fd, run)
    finally:
        os.close(fd)
    if is_new:
        sync_directory(path.parent)
    return before


def _overwrite(fd: int, text: str) -> None:
    # Longer than what it replaces or cut afterwards, and within one sector: a power cut leaves the old or the new.
    content = text.encode("ascii")
    os.pwrite(fd, content, 0)
    os.ftruncate(fd, len(content))
    os.fsync(fd)


def _remove(path: Path) -> bool:
    """Removes the record, durably. Returns whether there is none now."""
    try:
        with contextlib.suppress(FileNotFoundError):
            path.lstat()  # on a read-only file system unlink fails also for a file that is not there
            path.unlink()
        sync_directory(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return True
