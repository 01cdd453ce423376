"""The table of all settings: path, type, default, bounds, meaning, and whether a reload applies a change.

tree_reader.py walks this table. Tests compare docs/configuration.md, the example files and the model with it. `[]` in a
path marks a list of tables.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from forebay.settings.value_types import (
    ACCESS_KEY,
    ADDRESS,
    BOOLEAN,
    BUCKETS,
    CNAMES,
    DOMAINS,
    DURATION,
    ENDPOINT,
    FILE,
    FRESHNESS,
    INTEGER,
    LISTING,
    LOG,
    MODE,
    NAMES,
    PATTERN,
    PATTERNS,
    PROFILE,
    SECRET,
    SIZE,
    VARIABLE,
    WORD,
    ValueType,
    choice,
    choices,
    or_auto,
    or_off,
)


class Absent(Enum):
    """The default of a setting that has none."""

    REQUIRED = "required"
    UNSET = "not set"


REQUIRED: Final = Absent.REQUIRED
UNSET: Final = Absent.UNSET


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    path: str
    value_type: ValueType
    default: str | int | bool | tuple[()] | Absent
    """As in TOML."""
    meaning: str
    """One sentence."""
    low: float | None = None
    high: float | None = None
    """Bounds, inclusive, in the program's units: bytes, seconds, or as they are."""
    live: bool = False
    """Whether a change takes effect without a restart."""
    why: str = ""
    """The reason of the bounds, for a refusal."""

    @property
    def allowed(self) -> str:
        """The type and the bounds, for a refusal."""
        show = self.value_type.format
        if self.low is not None and self.high is not None:
            because = f" ({self.why})" if self.why else ""
            return f"{self.value_type.allowed}; from {show(self.low)} to {show(self.high)}{because}"
        return self.value_type.allowed if self.low is None else f"{self.value_type.allowed}; at least {show(self.low)}"


OPTIONAL_TABLES: Final = frozenset({"ssd", "journal", "auth.anonymous"})
"""Tables that may be absent; their required settings are required only if the table is present."""

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
MINUTE: Final = 60.0
HOUR: Final = 3600.0


def _secret(path: str, meaning: str, live: bool = False) -> tuple[Setting, Setting, Setting]:
    """The three settings of a secret: inline, by variable, by file."""
    return (
        Setting(path, SECRET, UNSET, f"{meaning}; prefer one of the next two settings.", live=live),
        Setting(f"{path}_env", VARIABLE, UNSET, f"The environment variable that holds `{path}`.", live=live),
        Setting(f"{path}_file", FILE, UNSET, f"The file that holds `{path}`; a final newline is dropped.", live=live),
    )


def _origin(table: str) -> tuple[Setting, ...]:
    """The settings that each origin has, in `[origin]` and in `[[origins]]`. There, how patient Forebay is with the
    origin and how many requests it sends is as in `[origin]`, where it is not set."""
    is_listed = table.endswith("[]")

    def shared(value: str | int) -> str | int | Absent:
        return UNSET if is_listed else value

    otherwise = "; if not set, that of `[origin]`" if is_listed else ""
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
        *_secret(f"{table}.secret_key", f"The secret of `{table}.access_key`", live=True),
        *_secret(f"{table}.session_token", f"The session token of `{table}.access_key`, if it has one", live=True),
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


TABLE: Final[tuple[Setting, ...]] = (
    Setting("server.listen", ADDRESS, "127.0.0.1:9000", "The address that clients connect to."),
    Setting("server.tls_listen", ADDRESS, UNSET, "The address for TLS, in addition to `server.listen`."),
    Setting(
        "server.tls_certificate",
        FILE,
        UNSET,
        "The certificate for `server.tls_listen` and its chain, in PEM; reread when it changes, and on SIGHUP.",
    ),
    Setting(
        "server.tls_key", FILE, UNSET, "The certificate's private key, in PEM without a passphrase; reread with it."
    ),
    Setting(
        "server.socket",
        FILE,
        UNSET,
        "The path of a Unix socket for clients on this machine: HTTP, and reads whose bytes come in shared memory.",
    ),
    Setting(
        "server.socket_mode",
        MODE,
        "0660",
        "The permissions of the socket's file: who may connect; what a client may read is what its signature proves.",
    ),
    Setting("server.socket_group", WORD, UNSET, "The group of the socket's file, a name or a number."),
    Setting(
        "server.admin",
        or_off(ADDRESS),
        "127.0.0.1:9001",
        "The address of the admin port: metrics, health and control; off loopback it needs `server.admin_token`.",
    ),
    Setting(
        "server.workers",
        or_auto(INTEGER),
        1,
        "Worker processes; they divide the sizes of `[memory]` and `origin.concurrency` equally and "
        'share one SSD tier; "auto" (or 0): one for each core that Forebay may use, at most eight.',
        0,
        256,
    ),
    Setting(
        "server.domains",
        DOMAINS,
        (),
        "Domains whose subdomains are buckets (virtual-hosted style); path style always works.",
        live=True,
    ),
    Setting(
        "server.cnames",
        CNAMES,
        UNSET,
        "Hosts that each name one bucket, so that the whole path is the key; they precede `server.domains`.",
        live=True,
    ),
    *_secret("server.admin_token", "The bearer token of the admin port"),
    Setting(
        "server.cors",
        BOOLEAN,
        False,
        "Whether web pages of other sites are answered as the CORS configuration of the bucket at the origin says.",
        live=True,
    ),
    Setting(
        "server.drain_timeout",
        DURATION,
        "30s",
        "The time that open requests have to finish once Forebay is told to stop.",
        0,
        HOUR,
    ),
    Setting(
        "server.shutdown_delay",
        DURATION,
        "0s",
        "How long Forebay goes on accepting requests once it is told to stop and /readyz says that it is not ready.",
        0,
        HOUR,
    ),
    Setting(
        "server.state_dir",
        FILE,
        UNSET,
        "The directory of the run record, kept across restarts and on another volume than `ssd.path`; if not set, "
        "`$STATE_DIRECTORY`, else `$XDG_STATE_HOME/forebay`, else `$HOME/.local/state/forebay`.",
    ),
    Setting(
        "server.access_log",
        LOG,
        "stdout",
        "The destination of the access log, a line of JSON for each request; a file is appended to, and "
        "reopened on SIGHUP.",
    ),
    Setting(
        "server.log_level",
        choice("debug", "info", "warning", "error"),
        "info",
        "The least severe messages that go to standard error.",
        live=True,
    ),
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
        "Its buckets, by name or pattern; the first of the origins that matches a bucket has it, `[origin]` has all "
        "others.",
    ),
    *_origin("origins[]"),
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
        "Bytes of blocks that are fetched ahead of their readers, by plans for instance, and not read yet; 0B: nothing "
        "is fetched ahead.",
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
        "Bytes of it that one connection of a client may have, so the largest body that it gets in one piece.",
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
        "How old an acknowledged write may become before it is at the origin; then `/readyz` and an alert say so.",
        1.0,
    ),
    Setting(
        "journal.upload_max_age",
        DURATION,
        "1d",
        "How long an unfinished upload of the journal is kept after its last part; then it is aborted.",
        60.0,
    ),
    Setting(
        "auth.mode",
        choice("keys", "open"),
        "keys",
        'Whether requests must be signed with one of `auth.keys`, or are not checked ("open", on loopback only).',
        live=True,
    ),
    Setting(
        "auth.authorization_ttl",
        DURATION,
        "60s",
        "How long the origin's permission to read an object is cached for a key with its own origin credential.",
        0,
        HOUR,
        live=True,
    ),
    Setting("auth.keys[].id", ACCESS_KEY, REQUIRED, "The access key that clients sign with.", live=True),
    *_secret("auth.keys[].secret", "The secret of the access key", live=True),
    *_secret("auth.keys[].session_token", "The session token that requests with this key must carry", live=True),
    Setting(
        "auth.keys[].origin_access_key",
        ACCESS_KEY,
        UNSET,
        "The key's own origin credential: it signs requests to the origin, and hits need the origin's permission.",
        live=True,
    ),
    *_secret("auth.keys[].origin_secret_key", "The secret of `origin_access_key`", live=True),
    *_secret("auth.keys[].origin_session_token", "The session token of `origin_access_key`, if it has one", live=True),
    Setting(
        "auth.keys[].origin_profile",
        PROFILE,
        UNSET,
        "The profile of the shared AWS files with the key's own origin credential.",
        live=True,
    ),
    Setting(
        "auth.keys[].origin_names",
        NAMES,
        (),
        "The origins where that credential is used, Forebay's own at the others; none named: all of them.",
        live=True,
    ),
    Setting(
        "auth.keys[].grants[].path",
        PATTERN,
        REQUIRED,
        "The objects of the grant, as a pattern over bucket/key.",
        live=True,
    ),
    Setting(
        "auth.keys[].grants[].allow",
        choices("read", "write", "list", "delete"),
        REQUIRED,
        "The allowed actions; anything else is denied.",
        live=True,
    ),
    Setting(
        "auth.anonymous.grants[].path",
        PATTERN,
        REQUIRED,
        "The objects of a grant to requests that are not signed, as a pattern over bucket/key.",
        live=True,
    ),
    Setting(
        "auth.anonymous.grants[].allow",
        choices("read", "write", "list", "delete"),
        REQUIRED,
        "The actions allowed to them, if the origin allows them to anybody; anything else is denied.",
        live=True,
    ),
    Setting("rules[].path", PATTERN, REQUIRED, "The objects of the rule, as a pattern over bucket/key.", live=True),
    Setting(
        "rules[].name",
        WORD,
        UNSET,
        "The data set that they count as, in metrics and `forebay datasets`; in metrics the path of the first rule if "
        "no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].accelerate",
        BOOLEAN,
        UNSET,
        "Whether they are cached; true if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].freshness",
        FRESHNESS,
        UNSET,
        "How long they are fresh after a validation at the origin; 60s if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].block",
        SIZE,
        UNSET,
        "The block size, a power of two; 1MiB if no rule sets it.",
        64 * KIB,
        64 * MIB,
        live=True,
    ),
    Setting(
        "rules[].warm_on_write",
        BOOLEAN,
        UNSET,
        "Whether written objects are cached as they pass; false if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].warm_on_head",
        BOOLEAN,
        UNSET,
        "Whether a HEAD with `Range: bytes=0-0` starts the object's warm-up; false if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].read_ahead",
        SIZE,
        UNSET,
        "Bytes that are fetched ahead of a reader whose requests follow each other, in an object and from object to "
        "object in the order of their keys; 0B, none, if no rule sets it.",
        0,
        live=True,
    ),
    Setting(
        "rules[].write",
        choice("through", "around", "back"),
        UNSET,
        'The write policy: "through"; "around", which never caches written bytes; or "back", which acknowledges a '
        'write once it is in the journal; "through" if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].conflict",
        choice("keep", "overwrite"),
        UNSET,
        'What becomes of a pending write (`write = "back"`) of an object that was written around Forebay meanwhile: '
        '"keep", it waits for a person, or "overwrite"; "keep" if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].fence",
        PATTERNS,
        UNSET,
        "Patterns of those among them that are acknowledged once they, and all that was acknowledged before, are at "
        'the origin, such as ["**/.metadata"]; for `write = "back"`; none if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].listing",
        LISTING,
        UNSET,
        'How old a listing may be that is answered from a snapshot of the namespace; "off" (passed on) if no rule sets '
        "it.",
        live=True,
    ),
    Setting(
        "rules[].packed",
        PATTERN,
        UNSET,
        "Where the packs with these objects are, as a pattern over keys of the same bucket, such as packed/**: a key "
        "that is no object but a member of a pack is read as if it were; none if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].plan_horizon",
        SIZE,
        UNSET,
        "Bytes that a plan has fetched ahead of its reader, within `memory.ahead`; 256MiB if no rule sets it; 0B: "
        "plans are only followed.",
        0,
        live=True,
    ),
    Setting(
        "rules[].record",
        BOOLEAN,
        UNSET,
        "Whether the order in which they are read is recorded; false if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].follow",
        BOOLEAN,
        UNSET,
        "Whether they are fetched ahead when they are read in the order of a recording; false if no rule sets it.",
        live=True,
    ),
    Setting(
        "rules[].eviction",
        choice("lru", "epoch"),
        UNSET,
        'What stays in a full tier: "lru", what was read last, or "epoch", a stable share; "lru" if no rule sets it.',
        live=True,
    ),
    Setting(
        "rules[].quota",
        SIZE,
        UNSET,
        "The largest part of the SSD tier that they may take; none of their own if no rule sets it.",
        MIB,
        live=True,
    ),
    Setting("limits.header_size", SIZE, "16KiB", "The largest head of a request.", 4 * KIB, MIB),
    Setting(
        "limits.connections",
        INTEGER,
        10000,
        "Concurrent client connections; those of `server.socket` are at most a quarter of them.",
        1,
        1_000_000,
    ),
    Setting("limits.header_timeout", DURATION, "10s", "The time in which a request's head must arrive.", 0.1, HOUR),
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
        "The room for snapshots of namespaces (rules[].listing), in each worker: 300 bytes a key, in large ones 50; "
        "beyond it listings are passed on.",
        MIB,
    ),
    Setting(
        "limits.recordings",
        SIZE,
        "256MiB",
        "Bytes of all recordings, in the state directory; automatic ones give way, then no more is recorded.",
        MIB,
    ),
)
