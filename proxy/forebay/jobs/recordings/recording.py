"""A recording: its facts besides its reads, and the choice of the automatic ones that are kept.

    recording ──> automatic ──┬──> saved          it has a name, and stays until it is removed
        ^             │       └──> (dropped)      others are worth more
    reads             └── uploaded ones are saved from the beginning

Automatic ones are the ring: of each track, a bucket's objects under one rule, the RING_SIZE most useful are kept. A job
that is started again begins with its first epoch, and goes on where it broke off: so first epochs are worth more than
later ones, and the latest two most of all. A *run* is a row of epochs without a long pause.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias

from forebay.core.names import is_bucket_name
from forebay.policy.anchor_index import AnchorIndex

RING_SIZE: Final = 8
"""Automatic recordings of one track."""
MIN_READS: Final = 16
"""A shorter one can't be recognised, and is not kept."""
MAX_NAME: Final = 128
MAX_FILE_SIZE: Final = 40 << 20
"""Bytes of one recording: three million reads of an ordinary data set."""
SHARED: Final = ""
"""The principal of a recording without an owner, which came to the admin port."""
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

RecordingState: TypeAlias = Literal["recording", "automatic", "saved"]


@dataclass(slots=True)
class Recording:
    """One recording. Times in seconds since 1970, sizes in bytes."""

    id: str
    """The name of its files: 16 hexadecimal digits."""
    bucket: str
    name: str
    principal: str
    """The principal who read, or who uploaded the recording; SHARED."""
    track: str
    """The data set that a rule names, or the rule's path; empty: it was uploaded."""
    state: RecordingState
    began: float
    run: str
    """Recordings with the same run follow one another."""
    epoch: int
    """The position in its run, from 1."""
    ended: float = 0.0
    used: float = 0.0
    """The time at which it was recognised last."""
    reads: int = 0
    size: int = 0
    """Bytes that were read."""
    file_size: int = 0
    is_whole: bool = False
    """Whether its objects were read again behind it, so that it has all of an epoch."""
    names: list[str] = field(default_factory=list)
    """The files of the names that its file has numbers of."""
    index: AnchorIndex = field(default_factory=AnchorIndex, compare=False)
    """Empty while it is recorded."""
    tail_reads: int = field(default=0, compare=False)
    """Reads behind `reads` that no page has yet, when they were saved last."""
    tail_size: int = field(default=0, compare=False)
    """Bytes of these reads."""

    @property
    def latest_use(self) -> float:
        """The time at which it was recorded or recognised last."""
        return max(self.ended, self.used)

    def to_document(self) -> dict[str, Any]:
        """Everything but the index and the tail, for its file."""
        return {name: getattr(self, name) for name in _DOCUMENT_FIELDS}  # asdict copies the index, which is large


_DOCUMENT_FIELDS: Final = {each.name: each.type for each in fields(Recording) if each.compare}


def recording_from(document: Any) -> Recording:
    """Returns the recording of a file's document. Raises ValueError if this is none."""
    if not isinstance(document, dict) or document.keys() != _DOCUMENT_FIELDS.keys():
        raise ValueError("a file that describes no recording")
    recording = Recording(**document)
    if not is_bucket_name(recording.bucket) or not is_recording_name(recording.name):
        raise ValueError("a file that describes a recording without a name")
    return recording


def is_recording_name(name: str) -> bool:
    """Returns whether a recording may have this name: letters, digits, `.`, `_` and `-`, none of these three first."""
    return 0 < len(name) <= MAX_NAME and _NAME_CHARACTERS.issuperset(name) and name[0].isalnum()


def automatic_name(began: str, recording_id: str) -> str:
    """Returns the name of an automatic recording. `began`: a time, as in `20261122T210938Z`."""
    return f"auto-{began}-{recording_id[:4]}"


def recordings_to_drop(recordings: Iterable[Recording]) -> list[Recording]:
    """Returns the automatic recordings of one track that are not worth keeping, the least useful first."""
    ring = [each for each in recordings if each.state == "automatic"]
    latest_of_run: dict[str, float] = {}
    for each in ring:
        latest_of_run[each.run] = max(latest_of_run.get(each.run, 0.0), each.latest_use)
    newest = {each.id for each in sorted(ring, key=lambda each: each.ended)[-2:]}
    ring.sort(key=lambda each: (each.id not in newest, each.epoch, -latest_of_run[each.run], -each.began))
    return ring[: RING_SIZE - 1 : -1]
