"""Upload notes: the uploads that Forebay has created at origins and not ended, in a file beside the logs.

    created ──> [run, bucket, key, upload id] ──> ended ──> [upload id]        a line of JSON each, appended
    a later run ──> those of earlier runs that have no end

Only a help: nothing is synced, and nothing depends on a line. Without one an upload that a stop has left stays at the
origin until the bucket's own rules remove it. Blocking: for the journal's threads.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from forebay.core.names import ObjectName
from forebay.storage.durable_files import replace_file


class NotedUpload(NamedTuple):
    """An upload at an origin."""

    run: int
    """The run of the process that has created it."""
    name: ObjectName
    upload_id: str


class UploadNotes:
    """The notes of one journal. No method raises: a note that can't be written is left out."""

    def __init__(self, path: str, run: int) -> None:
        self._path = path
        self._run = run

    def add(self, name: ObjectName, upload_id: str) -> None:
        """Notes an upload that was created."""
        self._append([self._run, *name, upload_id])

    def end(self, upload_id: str) -> None:
        """Notes that an upload was completed or aborted."""
        self._append([upload_id])

    def take_left(self) -> list[NotedUpload]:
        """Returns the uploads of earlier runs that were not ended. The file keeps the lines of these alone, unless this
        run has added some."""
        noted: dict[str, NotedUpload] = {}
        left: list[NotedUpload] = []
        with suppress(OSError):
            for line in Path(self._path).read_bytes().splitlines():
                with suppress(ValueError):  # a line that was cut off
                    match json.loads(line):
                        case [int(run), str(bucket), str(key), str(upload_id)]:
                            noted[upload_id] = NotedUpload(run, ObjectName(bucket, key), upload_id)
                        case [str(upload_id)]:
                            noted.pop(upload_id, None)
            left = [each for each in noted.values() if each.run < self._run]
            if len(left) == len(noted):
                lines = [_line([each.run, *each.name, each.upload_id]) for each in left]
                replace_file(Path(self._path), b"".join(lines))
        return left

    def _append(self, fields: list[Any]) -> None:
        with suppress(OSError):
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(fd, _line(fields))
            finally:
                os.close(fd)


def _line(fields: list[Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"
