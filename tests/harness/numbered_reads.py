"""Reads as a worker's log has them: by numbers."""

from collections.abc import Sequence

from forebay.core.read_log import LogContext, ReadGroup, ReadLog
from forebay.jobs.recordings.group_reads import GroupReads
from forebay.protocol.recordings.read_tail import ReadTail
from forebay.protocol.recordings.recording_page import RecordingPage


class NumberedReader:
    """Reads whole objects of 1,000 bytes from memory."""

    def __init__(self) -> None:
        self.log = ReadLog(LogContext("bucket", "user", "rule", "track"))
        self._codes: dict[str, int] = {}

    def group(self, keys: Sequence[str]) -> ReadGroup:
        for key in keys:
            if key not in self._codes:
                self._codes[key] = self.log.known.add(key, 1000)
            self.log.append(self._codes[key])
        return self.log.drain(len(keys))[0]

    def reads(self, keys: Sequence[str]) -> GroupReads:
        return GroupReads(self.group(keys))

    def page(self, keys: Sequence[str], seconds: int = 0) -> RecordingPage:
        return RecordingPage(ReadTail([self.reads(keys)]), seconds)
