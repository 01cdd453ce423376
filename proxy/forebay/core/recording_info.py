"""The facts about a recording, as the admin port shows them. Imports nothing: the supervisor reads it too."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """A recording. Times in seconds since 1970, sizes in bytes."""

    bucket: str
    name: str
    state: str
    """Recording: it is being made. Automatic: it gives way to others. Saved."""
    principal: str
    """The access key whose reads these are, or that uploaded them. Empty: the recording has no owner, and each key sees
    the reads of the keys that it may read."""
    track: str
    """The data set that was read; empty: it was uploaded."""
    began: float
    ended: float | None
    used: float | None
    """The time at which a reader was last recognised by the recording."""
    run: str
    epoch: int
    """Recordings of one run follow one another."""
    reads: int
    size: int
    """Bytes that were read."""
    file_size: int
    anchors: int
    """Positions in memory, by which it is recognised."""
    is_whole: bool = False
    """Whether its objects were read again behind it: it has all of an epoch."""
