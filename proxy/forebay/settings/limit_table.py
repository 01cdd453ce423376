"""The settings of `[limits]`: what clients may take at once."""

from typing import Final

from forebay.settings.setting import GIB, HOUR, KIB, MIB, UNSET, Setting
from forebay.settings.value_types import DURATION, FILE, INTEGER, SIZE

LIMITS: Final[tuple[Setting, ...]] = (
    Setting("limits.header_size", SIZE, "16KiB", "The largest head of a request.", 4 * KIB, MIB),
    Setting(
        "limits.connections",
        INTEGER,
        10000,
        "Concurrent client connections; those of `server.socket` are at most a quarter of them.",
        1,
        1_000_000,
    ),
    Setting("limits.header_timeout", DURATION, "10s", "The time within which a request's head must arrive.", 0.1, HOUR),
    Setting("limits.idle_timeout", DURATION, "75s", "The longest silence of a connection between requests.", 1, HOUR),
    Setting(
        "limits.body_timeout",
        DURATION,
        "60s",
        "The longest stall of a client that sends or receives a body.",
        1,
        HOUR,
    ),
    Setting(
        "limits.min_client_rate",
        SIZE,
        "16KiB",
        "Bytes a second; a slower client loses its turn at the origin to a request that waits for it; 0: never.",
        0,
    ),
    Setting("limits.requests", INTEGER, 2048, "Concurrent requests.", 1, 1_000_000),
    Setting(
        "limits.request_body",
        SIZE,
        "5GiB",
        "The largest body of a request; 5GiB is S3's limit for a single upload.",
        MIB,
        50 * GIB,
    ),
    Setting(
        "limits.held",
        SIZE,
        "4GiB",
        "The size of the spool: small parts of OSS clients, and bodies of unknown length, until they are sent; as much "
        "again for the starts of other uploads.",
        MIB,
    ),
    Setting(
        "limits.held_idle",
        DURATION,
        "6h",
        "How long small parts of an upload stay spooled after its last request.",
        1,
        168 * HOUR,
    ),
    Setting(
        "limits.held_path",
        FILE,
        UNSET,
        "The directory of spooled bodies that do not fit in memory; if not set, the system's temporary directory.",
    ),
    Setting(
        "limits.listings",
        SIZE,
        "4GiB",
        "Bytes for snapshots of namespaces (rules[].listing), in each worker: 300 a key, 50 in large ones; beyond it "
        "listings are forwarded.",
        MIB,
    ),
    Setting(
        "limits.recordings",
        SIZE,
        "256MiB",
        "Bytes of all recordings, in the state directory; automatic ones are removed first, then nothing more is "
        "recorded.",
        MIB,
    ),
)
