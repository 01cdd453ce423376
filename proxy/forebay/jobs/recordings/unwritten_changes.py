"""Changes of recordings that are in no file yet. A recording that is removed before it is written costs no disk access.

    append, end ... ──> changes, in order ──drain──> write, in the thread of the files
    remove ─────────> forgets those of a recording

Short epochs follow one another faster than anybody needs them on disk, and their recordings displace each other.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from forebay.jobs.recordings.recording import Recording
from forebay.jobs.recordings.recording_files import RecordingFiles

Change: TypeAlias = Callable[[RecordingFiles], int | None]
"""Returns by how much the recording's file has grown."""
_log = logging.getLogger(__name__)


class UnwrittenChanges:
    """The changes that wait in memory."""

    def __init__(self) -> None:
        self._changes: list[tuple[Recording, Change]] = []
        self._new: set[str] = set()
        """The ids of recordings of which nothing was drained."""

    def __len__(self) -> int:
        return len(self._changes)

    def begin(self, recording: Recording) -> None:
        """Notes a recording that has no files."""
        self._new.add(recording.id)

    def add(self, recording: Recording, change: Change) -> None:
        """Adds a change behind all others."""
        self._changes.append((recording, change))

    def forget(self, recording: Recording) -> bool:
        """Forgets the changes of a recording. Returns whether it may have files."""
        self._changes = [each for each in self._changes if each[0] is not recording]
        is_new = recording.id in self._new
        self._new.discard(recording.id)
        return not is_new

    def drain(self) -> list[tuple[Recording, Change]]:
        """Returns all of them, and has none any more."""
        drained, self._changes = self._changes, []
        self._new.difference_update([recording.id for recording, _ in drained])
        return drained


def write_changes(files: RecordingFiles, changes: Sequence[tuple[Recording, Change]]) -> list[int]:
    """Makes changes in order; blocks. Returns by how much the file of each has grown: one that fails is logged."""
    grown = []
    for recording, change in changes:
        size = None
        try:
            size = change(files)
        except OSError as error:
            _log.warning("the recording %s can't be written: %s", recording.name, error)
        except Exception:  # a defect of one recording is none of the others'
            _log.exception("the recording %s can't be written", recording.name)
        grown.append(size or 0)
    return grown
