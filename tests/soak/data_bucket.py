"""The bucket of the soak whose prefixes are under rules of all kinds, and the keys in it.

    back/      acknowledged from the journal
    listed/    likewise, and listed from a snapshot
    switched/  acknowledged from the journal, or written through: a reload changes it (soak.operators)
    members/   members of a pack that is made at the beginning, written to and deleted afterwards
    epoch/     a data set that is larger than its quota: recorded, followed, planned

Each key has one writer (soak.data_writer), but those of the data set, which stay as they are.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

DATA: Final = "data"
WRITERS: Final = 6
PREFIXES: Final = ("back/", "listed/", "switched/", "members/")
LISTED: Final = ("back/", "listed/", "members/", "")
"""Prefixes that are listed."""
PACKED: Final = "members/"
EPOCH_KEYS: Final = [f"epoch/{number:03}" for number in range(96)]
MEMBER_SIZE: Final = 20 * 1024
EPOCH_SIZE: Final = 3 * 64 * 1024
_UNCHANGED: Final = [f"members/fixed-{number:02}" for number in range(24)]
"""Members that nobody writes to."""
CHANGES: Final[Mapping[str, Sequence[str]]] = {
    "write": ("back", "through", "around"),
    "freshness": ("always", "1s", "10m", "immutable"),
    "eviction": ("epoch", "lru"),
    "quota": ("4MiB", "8MiB", "1GiB"),
    "listing": ("off", "1s", "1m", "immutable"),
}
"""What a reload changes in the rules, and to what."""

_SETTINGS: Final = """
[journal]
path = "{journal}"
size = "{size}"

[[rules]]
path = "data/listed/**"
write = "back"
listing = "1m" # changes

[[rules]]
path = "data/back/**"
write = "back"

[[rules]]
path = "data/switched/**"
write = "back" # changes
freshness = "10m" # changes

[[rules]]
path = "data/members/**"
packed = "packed/**"
write = "through" # changes
freshness = "10m"

[[rules]]
path = "data/epoch/**"
freshness = "immutable"
eviction = "epoch" # changes
quota = "8MiB" # changes
record = true
follow = true

[[rules]]
path = "data/**"
freshness = "60s"
block = "64KiB"
"""


def data_settings(directory: Path, journal_size: str) -> str:
    """The journal, and the rules of the bucket."""
    return _SETTINGS.format(journal=directory / "journal", size=journal_size)


def written_keys(writer: int) -> list[str]:
    """The keys that this writer writes to, and nobody else."""
    return [f"{prefix}{writer}-{number}" for prefix in PREFIXES for number in range(4)]


def packed_keys() -> list[str]:
    """The keys that are members of the pack when the clients begin."""
    written = [key for writer in range(WRITERS) for key in written_keys(writer) if key.startswith(PACKED)]
    return [*written, *_UNCHANGED]


def data_keys() -> list[str]:
    """All keys but those of the data set."""
    return [*(key for writer in range(WRITERS) for key in written_keys(writer)), *_UNCHANGED]
