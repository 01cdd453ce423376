"""The settings of `[memory]`, `[ssd]` and `[journal]`: the places that Forebay keeps bytes in, and their sizes."""

from typing import Final

from forebay.settings.setting import GIB, MIB, REQUIRED, UNSET, Setting
from forebay.settings.value_types import DURATION, FILE, SIZE

STORAGE: Final[tuple[Setting, ...]] = (
    Setting("memory.size", SIZE, "1GiB", "The size of the memory tier.", 0, live=True),
    Setting(
        "memory.buffers",
        SIZE,
        "256MiB",
        "Bytes of buffers for fetches and uploads in progress; beyond it clients get 503 SlowDown.",
        MIB,
        live=True,
    ),
    Setting(
        "memory.ahead",
        SIZE,
        "256MiB",
        "Bytes of blocks that were fetched ahead of their readers, by plans for instance, and not read yet, and of "
        "their heads that do not fit in `memory.size`; 0B: nothing is fetched ahead.",
        0,
        live=True,
    ),
    Setting(
        "memory.rings",
        SIZE,
        "256MiB",
        "Bytes of memory that clients of `server.socket` share with Forebay, all together; a client beyond it gets its "
        "bytes through the socket.",
        0,
        live=True,
    ),
    Setting(
        "memory.ring",
        SIZE,
        "64MiB",
        "The bytes of `memory.rings` for one connection of a client, and so the largest body that it gets in one "
        "piece.",
        0,
        64 * GIB,
    ),
    Setting("ssd.path", FILE, REQUIRED, "The directory of the SSD tier; one Forebay uses it at a time."),
    Setting("ssd.size", SIZE, REQUIRED, "The size of the SSD tier.", MIB, live=True),
    Setting(
        "ssd.pin_quota",
        SIZE,
        UNSET,
        "Bytes of the SSD tier that pinned objects may take; if not set, three quarters of it.",
        0,
        live=True,
    ),
    Setting(
        "journal.path",
        FILE,
        REQUIRED,
        'The directory of the journal, which rules with `write = "back"` need; it is no cache: never delete it.',
    ),
    Setting(
        "journal.size", SIZE, REQUIRED, "The size of the journal; writes that find it nearly full go through.", 16 * MIB
    ),
    Setting(
        "journal.max_age",
        DURATION,
        "1h",
        "The age of an acknowledged write that is not at the origin yet, from which `/readyz` and an alert report it.",
        1.0,
    ),
    Setting(
        "journal.upload_max_age",
        DURATION,
        "1d",
        "The time after its last part for which an unfinished upload of the journal is kept; then it is aborted.",
        60.0,
    ),
    Setting(
        "journal.upload_rate",
        SIZE,
        UNSET,
        "Bytes a second of pending writes that the node sends to the origins; if not set, without a limit.",
        MIB,
    ),
)
