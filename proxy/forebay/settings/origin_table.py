"""The settings of `[origin]` and `[[origins]]`: where objects come from, and how they are requested."""

from typing import Final

from forebay.settings.setting import GIB, HOUR, KIB, MIB, MINUTE, REQUIRED, UNSET, Absent, Setting, secret_settings
from forebay.settings.value_types import (
    ACCESS_KEY,
    BOOLEAN,
    BUCKETS,
    DURATION,
    ENDPOINT,
    FILE,
    INTEGER,
    PROFILE,
    SIZE,
    WORD,
    choice,
)


def _origin(table: str) -> tuple[Setting, ...]:
    """The settings that each origin has, in `[origin]` and in `[[origins]]`."""
    return (*_identity(table), *_credential(table), *_limits(table))


def _identity(table: str) -> tuple[Setting, ...]:
    """The settings of the object store and its protocol."""
    is_listed = table.endswith("[]")
    return (
        Setting(
            f"{table}.endpoint",
            ENDPOINT,
            REQUIRED if is_listed else UNSET,
            "The object store of these buckets."
            if is_listed
            else "The object store behind Forebay; required, unless all buckets are those of `[[origins]]`.",
        ),
        Setting(
            f"{table}.cache_id",
            WORD,
            UNSET,
            f"A name of the object store, by which the SSD tier recognises its content after `{table}.endpoint` has "
            "changed; never the same for two stores.",
        ),
        Setting(
            f"{table}.region",
            WORD,
            UNSET,
            "The region in signatures for the origin; if not set, the region in the name of an Amazon or Alibaba "
            "endpoint, else us-east-1 (never with dialect oss).",
        ),
        Setting(
            f"{table}.dialect",
            choice("aws", "minio", "ceph", "swift", "oss"),
            UNSET,
            'The kind of origin; if not set, "aws" for hosts of amazonaws.com, "oss" (Alibaba OSS in its own '
            'protocol) for hosts of aliyuncs.com, "minio" for all others.',
        ),
    )


def _credential(table: str) -> tuple[Setting, ...]:
    """The settings of Forebay's credential there, and of the accepted certificates."""
    return (
        Setting(
            f"{table}.profile",
            PROFILE,
            UNSET,
            "The profile of the shared AWS files whose credentials are used at the origin.",
            live=True,
        ),
        Setting(
            f"{table}.access_key",
            ACCESS_KEY,
            UNSET,
            "The access key used at the origin; without it, `profile` and `anonymous`, the AWS provider chain is used.",
            live=True,
        ),
        *secret_settings(f"{table}.secret_key", f"The secret of `{table}.access_key`", live=True),
        *secret_settings(
            f"{table}.session_token", f"The session token of `{table}.access_key`, if it has one", live=True
        ),
        Setting(
            f"{table}.anonymous",
            BOOLEAN,
            False,
            "Whether requests to the origin are unsigned, as public buckets allow.",
            live=True,
        ),
        Setting(
            f"{table}.ca_file",
            FILE,
            UNSET,
            "A file of CA certificates that the origin's certificate is verified against, instead of the system's.",
        ),
    )


def _limits(table: str) -> tuple[Setting, ...]:
    """The settings of waiting for the origin, and of the number of requests. An entry of `[[origins]]` that doesn't set
    one of them has that of `[origin]`."""
    is_listed = table.endswith("[]")

    def shared(value: str | int) -> str | int | Absent:
        return UNSET if is_listed else value

    otherwise = "; if not set, that of `[origin]`" if is_listed else ""
    return (
        Setting(
            f"{table}.connect_timeout",
            DURATION,
            shared("5s"),
            f"The timeout for a connection to the origin{otherwise}.",
            0.1,
            5 * MINUTE,
        ),
        Setting(
            f"{table}.answer_timeout",
            DURATION,
            shared("60s"),
            f"The longest silence of the origin, before a response and within one{otherwise}.",
            0.1,
            HOUR,
        ),
        Setting(
            f"{table}.hedge_after",
            DURATION,
            shared("2s"),
            "The time without a response after which a read is sent to the origin a second time, over a new "
            f"connection; 0s turns this off{otherwise}.",
            0,
            HOUR,
        ),
        Setting(
            f"{table}.concurrency", INTEGER, shared(256), f"Concurrent requests to the origin{otherwise}.", 1, 65536
        ),
        Setting(
            f"{table}.attempts",
            INTEGER,
            shared(3),
            f"Attempts of a read before the client gets an error{otherwise}.",
            1,
            10,
        ),
    )


ORIGINS: Final[tuple[Setting, ...]] = (
    *_origin("origin"),
    Setting(
        "origin.min_rate",
        SIZE,
        "64KiB",
        "The bytes a second below which a response that a reader waits for is replaced by another one, over a new "
        "connection; 0 turns this off.",
        0,
        GIB,
    ),
    Setting("origin.parallel", INTEGER, 16, "Concurrent ranged reads at the origin for one reader.", 1, 64),
    Setting(
        "origin.max_run", SIZE, "8MiB", "The most bytes of one ranged read; at least the largest block.", 64 * KIB, GIB
    ),
    Setting(
        "origin.gap",
        SIZE,
        "256KiB",
        "The largest gap of cached bytes between two missing runs that is fetched again to save a request.",
        0,
        64 * MIB,
    ),
    Setting(
        "origins[].name",
        WORD,
        REQUIRED,
        "The origin's name, in the log, the stats and the metrics, and in `auth.keys[].origin_names`.",
    ),
    Setting(
        "origins[].buckets",
        BUCKETS,
        REQUIRED,
        "Its buckets, by name or pattern; a bucket belongs to the first origin that matches, and all others to "
        "`[origin]`.",
    ),
    *_origin("origins[]"),
)
