"""The settings as the program uses them: validated, in bytes and seconds, with the secrets fetched.

How each is written, its default and its bounds stand in forebay.settings.setting_table; a test holds the two together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forebay.settings.addresses import Address
from forebay.settings.rule_settings import Rule
from forebay.settings.secret import Secret

Dialect: TypeAlias = Literal["aws", "minio", "ceph", "swift", "oss"]
AccessWord: TypeAlias = Literal["read", "write", "list", "delete"]


LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    listen: Address
    tls_listen: Address | None
    """With it, both of the next are given."""
    tls_certificate: str | None
    tls_key: str | None
    admin: Address | None
    workers: int
    domains: tuple[str, ...]
    cnames: Mapping[str, str]
    """Hosts, in lower case and without a final dot, to buckets."""
    admin_token: Secret | None
    drain_timeout: float
    access_log: str
    """`stdout`, `stderr`, `off`, or an absolute path."""
    log_level: LogLevel


@dataclass(frozen=True, slots=True)
class ProviderChain:
    """The usual places in the usual order: environment, shared files, container, instance."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The usual shared files, that profile."""

    name: str


@dataclass(frozen=True, slots=True)
class StaticKey:
    access_key: str
    secret_key: Secret
    session_token: Secret | None


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Requests to the origin are not signed."""


Credentials: TypeAlias = ProviderChain | Profile | StaticKey | Anonymous


@dataclass(frozen=True, slots=True)
class OriginSettings:
    endpoint: str
    """`scheme://host[:port]`, without a final slash."""
    region: str
    dialect: Dialect
    credentials: Credentials
    ca_file: str | None
    connect_timeout: float
    answer_timeout: float
    concurrency: int
    attempts: int
    parallel: int
    max_run: int
    gap: int


@dataclass(frozen=True, slots=True)
class MemorySettings:
    size: int
    buffers: int


@dataclass(frozen=True, slots=True)
class SsdSettings:
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class GrantSettings:
    path: str
    allow: frozenset[AccessWord]


@dataclass(frozen=True, slots=True)
class KeySettings:
    id: str
    secret: Secret
    session_token: Secret | None
    grants: tuple[GrantSettings, ...]
    origin: StaticKey | Profile | None = None
    """The principal's own credential at the origin; None: Forebay's is used."""


@dataclass(frozen=True, slots=True)
class AuthSettings:
    mode: Literal["keys", "open"]
    keys: tuple[KeySettings, ...]
    authorization_ttl: float = 60.0


@dataclass(frozen=True, slots=True)
class LimitSettings:
    header_size: int
    connections: int
    header_timeout: float
    idle_timeout: float
    body_timeout: float
    requests: int
    request_body: int
    held: int
    held_idle: float
    held_path: str | None


@dataclass(frozen=True, slots=True)
class Settings:
    server: ServerSettings
    origin: OriginSettings
    memory: MemorySettings
    ssd: SsdSettings | None
    auth: AuthSettings
    rules: tuple[Rule, ...]
    limits: LimitSettings
