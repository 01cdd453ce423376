"""Every setting there is: its path, kind, default, bounds and meaning, and whether it changes without a restart.

The reader of configurations walks this table, and docs/configuration.md, the example files and the model are tested
against it. `[]` in a path stands for each of a list of tables.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from forebay.settings.value_types import (
    ACCESS_KEY,
    ADDRESS,
    BOOLEAN,
    CNAMES,
    DOMAINS,
    DURATION,
    ENDPOINT,
    FILE,
    FRESHNESS,
    INTEGER,
    LOG,
    PATTERN,
    PROFILE,
    SECRET,
    SIZE,
    VARIABLE,
    WORD,
    Kind,
    choice,
    choices,
    or_auto,
    or_off,
)


class Absent(Enum):
    """What becomes of a setting that nobody gives."""

    REQUIRED = "required"
    UNSET = "not set"


REQUIRED: Final = Absent.REQUIRED
UNSET: Final = Absent.UNSET


@dataclass(frozen=True, slots=True)
class Setting:
    path: str
    kind: Kind
    default: str | int | bool | tuple[()] | Absent
    """As it would be written in TOML."""
    meaning: str
    """One sentence."""
    low: float | None = None
    high: float | None = None
    """Bounds, inclusive, in the program's units: bytes, seconds, or as they are."""
    live: bool = False
    """Whether a change takes effect without a restart."""
    why: str = ""
    """What explains the bounds, for a refusal."""

    @property
    def allowed(self) -> str:
        """The kind and the bounds, for a refusal."""
        show = self.kind.show
        if self.low is not None and self.high is not None:
            because = f" ({self.why})" if self.why else ""
            return f"{self.kind.allowed}; from {show(self.low)} to {show(self.high)}{because}"
        return self.kind.allowed if self.low is None else f"{self.kind.allowed}; at least {show(self.low)}"


OPTIONAL_TABLES: Final = frozenset({"ssd"})
"""Tables that may be left out whole; what is required in them is required only where they are given."""

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
MINUTE: Final = 60.0
HOUR: Final = 3600.0


def _secret(path: str, meaning: str, live: bool = False) -> tuple[Setting, Setting, Setting]:
    """A secret and the two other ways of giving it."""
    return (
        Setting(path, SECRET, UNSET, f"{meaning}; better given in one of the next two ways.", live=live),
        Setting(f"{path}_env", VARIABLE, UNSET, f"The environment variable that holds `{path}`.", live=live),
        Setting(f"{path}_file", FILE, UNSET, f"The file that holds `{path}`; a final newline is dropped.", live=live),
    )


TABLE: Final[tuple[Setting, ...]] = (
    Setting("server.listen", ADDRESS, "127.0.0.1:9000", "Where clients connect."),
    Setting("server.tls_listen", ADDRESS, UNSET, "Where clients connect with TLS, beside `server.listen`."),
    Setting(
        "server.tls_certificate",
        FILE,
        UNSET,
        "The certificate shown there and its chain, in PEM; read again when it changes, and on SIGHUP.",
    ),
    Setting("server.tls_key", FILE, UNSET, "The certificate's private key, in PEM without a passphrase; read with it."),
    Setting(
        "server.admin",
        or_off(ADDRESS),
        "127.0.0.1:9001",
        "Where metrics, health and control are; anywhere but on loopback it needs `server.admin_token`.",
    ),
    Setting(
        "server.workers",
        or_auto(INTEGER),
        1,
        "Processes that serve, each with an equal share of `memory.size`, `memory.buffers` and "
        '`origin.concurrency`, and all with one SSD tier; "auto" (or 0): one for each core that Forebay may use, at '
        "most eight.",
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
        "Hosts that stand for one bucket each, whose keys are then the whole path; they go before `server.domains`.",
        live=True,
    ),
    *_secret("server.admin_token", "The bearer token that the admin port asks for"),
    Setting(
        "server.drain_timeout",
        DURATION,
        "30s",
        "How long open requests may take to end after a stop was asked for.",
        0,
        HOUR,
    ),
    Setting(
        "server.access_log",
        LOG,
        "stdout",
        "Where the line of JSON for each request goes; a file is added to, and opened anew on SIGHUP.",
    ),
    Setting(
        "server.log_level",
        choice("debug", "info", "warning", "error"),
        "info",
        "What Forebay says of itself on standard error: that, and what weighs more.",
        live=True,
    ),
    Setting("origin.endpoint", ENDPOINT, REQUIRED, "The object store behind Forebay."),
    Setting(
        "origin.region",
        WORD,
        UNSET,
        "The region that requests to the origin are signed for; where not set, the one that an endpoint of Amazon or "
        "Alibaba names, or us-east-1 (never with dialect oss).",
    ),
    Setting(
        "origin.dialect",
        choice("aws", "minio", "ceph", "swift", "oss"),
        UNSET,
        'What the origin is; where not set, "aws" for hosts of amazonaws.com, "oss" (Alibaba OSS in its own protocol) '
        'for hosts of aliyuncs.com, "minio" for all others.',
    ),
    Setting(
        "origin.profile",
        PROFILE,
        UNSET,
        "The profile of the shared AWS files whose credentials are used at the origin.",
    ),
    Setting(
        "origin.access_key",
        ACCESS_KEY,
        UNSET,
        "The access key used at the origin; without it, `profile` and `anonymous`, the usual provider chain is asked.",
    ),
    *_secret("origin.secret_key", "The secret of `origin.access_key`"),
    *_secret("origin.session_token", "The session token of `origin.access_key`, if it has one"),
    Setting("origin.anonymous", BOOLEAN, False, "Whether requests to the origin go unsigned, as public buckets allow."),
    Setting(
        "origin.ca_file", FILE, UNSET, "A file of CA certificates to trust the origin by, instead of the system's."
    ),
    Setting("origin.connect_timeout", DURATION, "5s", "How long a connection may take.", 0.1, 5 * MINUTE),
    Setting(
        "origin.answer_timeout",
        DURATION,
        "60s",
        "How long the origin may be silent, before an answer and within one.",
        0.1,
        HOUR,
    ),
    Setting("origin.concurrency", INTEGER, 256, "Requests to the origin at a time.", 1, 65536),
    Setting("origin.attempts", INTEGER, 3, "How often a read is tried before the client is told.", 1, 10),
    Setting("origin.parallel", INTEGER, 16, "Ranged reads at the origin at a time for one reader.", 1, 64),
    Setting(
        "origin.max_run", SIZE, "8MiB", "The most bytes of one ranged read; at least the largest block.", 64 * KIB, GIB
    ),
    Setting(
        "origin.gap",
        SIZE,
        "256KiB",
        "The most bytes at hand that are read again where that saves a request.",
        0,
        64 * MIB,
    ),
    Setting("memory.size", SIZE, "1GiB", "Bytes of blocks that are kept in memory.", 0, live=True),
    Setting(
        "memory.buffers",
        SIZE,
        "256MiB",
        "Bytes that fetches and uploads under way may hold; beyond it clients are asked to slow down.",
        MIB,
        live=True,
    ),
    Setting("ssd.path", FILE, REQUIRED, "The directory of the SSD tier, used by one Forebay at a time."),
    Setting("ssd.size", SIZE, REQUIRED, "Bytes that the SSD tier may take.", MIB, live=True),
    Setting(
        "auth.mode",
        choice("keys", "open"),
        "keys",
        'Whether requests must be signed by one of `auth.keys`, or are not checked at all ("open": on loopback only).',
        live=True,
    ),
    Setting(
        "auth.authorization_ttl",
        DURATION,
        "60s",
        "How long the origin's permission to read an object holds for a key with a credential of its own there.",
        0,
        HOUR,
        live=True,
    ),
    Setting("auth.keys[].id", ACCESS_KEY, REQUIRED, "The access key, as clients give it.", live=True),
    *_secret("auth.keys[].secret", "The secret of the access key", live=True),
    *_secret("auth.keys[].session_token", "The session token that must come with the access key", live=True),
    Setting(
        "auth.keys[].origin_access_key",
        ACCESS_KEY,
        UNSET,
        "The key's own credential at the origin: it signs what is asked there, and hits need the origin's permission.",
        live=True,
    ),
    *_secret("auth.keys[].origin_secret_key", "The secret of `origin_access_key`", live=True),
    *_secret("auth.keys[].origin_session_token", "The session token of `origin_access_key`, if it has one", live=True),
    Setting(
        "auth.keys[].origin_profile",
        PROFILE,
        UNSET,
        "The profile of the shared AWS files that holds the key's own credential at the origin.",
        live=True,
    ),
    Setting(
        "auth.keys[].grants[].path", PATTERN, REQUIRED, "The objects that the grant is about, as bucket/key.", live=True
    ),
    Setting(
        "auth.keys[].grants[].allow",
        choices("read", "write", "list", "delete"),
        REQUIRED,
        "What may be done with them; what no grant allows is denied.",
        live=True,
    ),
    Setting("rules[].path", PATTERN, REQUIRED, "The objects that the rule is about, as bucket/key.", live=True),
    Setting(
        "rules[].accelerate",
        BOOLEAN,
        UNSET,
        "Whether they are cached at all; true where no rule says so.",
        live=True,
    ),
    Setting(
        "rules[].freshness",
        FRESHNESS,
        UNSET,
        "How long they are believed without asking the origin; 60s where no rule says so.",
        live=True,
    ),
    Setting(
        "rules[].block",
        SIZE,
        UNSET,
        "The size that they are fetched and kept in, a power of two; 1MiB where no rule says so.",
        64 * KIB,
        64 * MIB,
        live=True,
    ),
    Setting(
        "rules[].warm_on_write",
        BOOLEAN,
        UNSET,
        "Whether what is written is kept for the reads to come; false where no rule says so.",
        live=True,
    ),
    Setting(
        "rules[].write",
        choice("through", "around"),
        UNSET,
        'How writes go: "around" never keeps what is written; "through" where no rule says so.',
        live=True,
    ),
    Setting("limits.header_size", SIZE, "16KiB", "The most bytes of a request's head.", 4 * KIB, MIB),
    Setting("limits.connections", INTEGER, 10000, "Client connections at a time.", 1, 1_000_000),
    Setting("limits.header_timeout", DURATION, "10s", "How long a request's head may take to arrive.", 0.1, HOUR),
    Setting("limits.idle_timeout", DURATION, "75s", "How long a connection may be silent between requests.", 1, HOUR),
    Setting(
        "limits.body_timeout",
        DURATION,
        "60s",
        "How long a client may be silent while it sends or takes a body.",
        1,
        HOUR,
    ),
    Setting("limits.requests", INTEGER, 2048, "Requests under way at a time.", 1, 1_000_000),
    Setting(
        "limits.request_body",
        SIZE,
        "5GiB",
        "The most bytes of a request's body; 5GiB is the largest single upload of S3.",
        MIB,
        50 * GIB,
    ),
    Setting(
        "limits.held",
        SIZE,
        "4GiB",
        "The most bytes of OSS clients' small parts, and of bodies of unknown length, held until they can be sent.",
        MIB,
    ),
    Setting(
        "limits.held_idle",
        DURATION,
        "6h",
        "How long the small parts of an upload are held after its last request.",
        1,
        168 * HOUR,
    ),
    Setting(
        "limits.held_path",
        FILE,
        UNSET,
        "The directory where they are held when memory is short; where not set, the system's for temporary files.",
    ),
)
