"""The settings as the program uses them: validated, in bytes and seconds, with secrets fetched.

forebay.settings.setting_table has the type, default, bounds and meaning of each; a test keeps the two in step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from forebay.settings.addresses import ListenAddress
from forebay.settings.rule_settings import Rule
from forebay.settings.secret import Secret

Dialect: TypeAlias = Literal["aws", "minio", "ceph", "swift", "oss"]
AccessWord: TypeAlias = Literal["read", "write", "list", "delete"]


LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`[server]`: listeners, workers, the admin port, logs."""

    listen: ListenAddress
    tls_listen: ListenAddress | None
    """If set, `tls_certificate` and `tls_key` are set too."""
    tls_certificate: str | None
    tls_key: str | None
    admin: ListenAddress | None
    workers: int
    domains: tuple[str, ...]
    socket: str | None
    """An absolute path; None: there is none."""
    socket_mode: str
    """Octal digits."""
    socket_group: str | None
    """A name or a number."""
    cnames: Mapping[str, str]
    """Hosts, in lower case and without a final dot, to buckets."""
    admin_token: Secret | None
    cors: bool
    drain_timeout: float
    shutdown_delay: float
    state_dir: str | None
    """An absolute path; None: none is set, and the environment names none."""
    access_log: str
    """`stdout`, `stderr`, `off`, or an absolute path."""
    log_level: LogLevel


@dataclass(frozen=True, slots=True)
class ProviderChain:
    """The AWS provider chain: environment, shared files, container, instance."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile of the shared AWS files."""

    name: str


@dataclass(frozen=True, slots=True)
class StaticKey:
    """An access key written in the configuration."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None


@dataclass(frozen=True, slots=True)
class AnonymousAccess:
    """Requests to the origin are not signed."""


OriginCredentials: TypeAlias = ProviderChain | Profile | StaticKey | AnonymousAccess


@dataclass(frozen=True, slots=True)
class OriginSettings:
    """`[origin]`, or one of `[[origins]]`: where an origin is, and how it is reached. Times in seconds."""

    name: str
    """The name of the origin; that of `[origin]` is forebay.core.events.DEFAULT_ORIGIN."""
    buckets: tuple[str, ...]
    """Patterns of the names of its buckets; none for `[origin]`, which has all others."""
    endpoint: str
    """`scheme://host[:port]`, without a final slash."""
    cache_id: str | None
    """Names the origin of what is cached, in place of the endpoint."""
    region: str
    dialect: Dialect
    credentials: OriginCredentials
    ca_file: str | None
    connect_timeout: float
    answer_timeout: float
    hedge_after: float
    """0: reads are not hedged."""
    concurrency: int
    attempts: int


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The settings of `[origin]` that all origins share: how objects are fetched. Sizes in bytes."""

    min_rate: int
    """0: slow responses are not replaced."""
    parallel: int
    max_run: int
    gap: int


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """`[memory]`: the memory tier, the buffers of fetches, what is fetched ahead of readers, and the rings of clients
    on the Unix socket, in bytes."""

    size: int
    buffers: int
    ahead: int
    rings: int
    ring: int
    """Bytes of the ring of one client."""


@dataclass(frozen=True, slots=True)
class SsdSettings:
    """`[ssd]`: the SSD tier's directory, and sizes in bytes."""

    path: str
    size: int
    pin_quota: int | None = None
    """None: a share of the size (policy.pins)."""


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """`[journal]`: the journal's directory, its size in bytes, the age of a write that is reported, the time
    without a part after which an unfinished upload is aborted, and the bytes a second of pending writes."""

    path: str
    size: int
    max_age: float
    upload_max_age: float
    upload_rate: int | None = None
    """None: as many as the origins take."""


@dataclass(frozen=True, slots=True)
class GrantSettings:
    """One grant of a key: a path pattern and the actions allowed on it."""

    path: str
    allow: frozenset[AccessWord]


@dataclass(frozen=True, slots=True)
class KeySettings:
    """One of `[[auth.keys]]`: an access key that clients sign with, and its grants."""

    id: str
    secret: Secret
    session_token: Secret | None
    grants: tuple[GrantSettings, ...]
    origin: StaticKey | Profile | None = None
    """The principal's own credential at the origin; None: Forebay's own is used."""
    origin_names: tuple[str, ...] = ()
    """The origins where that credential is used; none named: all of them."""

    def has_credential_at(self, origin: str) -> bool:
        """Whether the key has a credential of its own at the origin of this name."""
        return self.origin is not None and (not self.origin_names or origin in self.origin_names)


ANONYMOUS_ID: Final = "anonymous"
"""The principal of requests that are not signed; no key has this id beside `[auth.anonymous]`."""


@dataclass(frozen=True, slots=True)
class AnonymousClients:
    """`[auth.anonymous]`: the grants of requests that are not signed."""

    grants: tuple[GrantSettings, ...]


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """`[auth]`: how requests are authenticated."""

    mode: Literal["keys", "open"]
    keys: tuple[KeySettings, ...]
    authorization_ttl: float = 60.0
    anonymous: AnonymousClients | None = None
    """None: requests that are not signed are denied."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """`[limits]`: bounds on connections, requests and bodies. Times in seconds, sizes in bytes."""

    header_size: int
    connections: int
    header_timeout: float
    idle_timeout: float
    body_timeout: float
    min_client_rate: int
    requests: int
    request_body: int
    held: int
    held_idle: float
    held_path: str | None
    listings: int
    recordings: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole configuration."""

    server: ServerSettings
    origin: OriginSettings | None
    """Has the buckets that none of `origins` has; None: there are no other buckets."""
    origins: tuple[OriginSettings, ...]
    """`[[origins]]`: the first with a pattern that matches has a bucket."""
    fetch: FetchSettings
    memory: MemorySettings
    ssd: SsdSettings | None
    journal: JournalSettings | None
    auth: AuthSettings
    rules: tuple[Rule, ...]
    limits: LimitSettings

    @property
    def all_origins(self) -> tuple[OriginSettings, ...]:
        """Every origin, at least one, in the order in which they are tried for a bucket."""
        return self.origins if self.origin is None else (*self.origins, self.origin)
