"""What the admin port asks of the running server, and the shapes it is answered in.

The port owns HTTP: who may ask, bounds, JSON. A Control owns meaning: it is the only one that knows settings, tiers and
warm-up. Nothing here is HTTP, and no shape here is allowed to hold a secret.

A Control may raise, and the port translates (forebay.server.admin.admin_errors):

    SettingsError   a configuration, or a size, that is refused; then nothing at all was changed
    Throttled       a limit is used up, e.g. too many jobs at once
    OriginError     the origin was needed and could not be read
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from forebay.core.events import TierName
from forebay.core.names import ObjectName
from forebay.server.admin.stats_schema import Stats

Document: TypeAlias = Mapping[str, object]
"""What `json.dumps` takes."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Requests can be served."""


@dataclass(frozen=True, slots=True)
class NotReady:
    """Requests would fail. `reasons` are sentences for people, e.g. "The origin can't be reached."; never empty."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """A configuration was taken over. Both hold paths of keys, as in the file: `memory.size`, `rules`."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]
    """Differ from what runs and take effect at the next start only."""


@dataclass(frozen=True, slots=True)
class NoConfigFile:
    """Forebay was started without a file, so that there is none to read again."""


@dataclass(frozen=True, slots=True)
class WarmPrefix:
    """The order to bring every object under a prefix into the cache. An empty prefix is the whole bucket."""

    bucket: str
    prefix: str
    concurrency: int | None
    """Objects at once; None: the server's own default."""


@dataclass(frozen=True, slots=True)
class WarmKeys:
    """The order to bring these objects, at least one, into the cache."""

    bucket: str
    keys: tuple[str, ...]
    concurrency: int | None


WarmOrder: TypeAlias = WarmPrefix | WarmKeys


@dataclass(frozen=True, slots=True)
class WarmFailure:
    key: str
    reason: str
    """For people. Never holds what the origin was sent."""


@dataclass(frozen=True, slots=True)
class Job:
    """A warm-up as it stands. Jobs live in the process: they end with it, and none is taken up again."""

    id: str
    bucket: str
    prefix: str | None
    """None: the job has a list of keys."""
    state: Literal["running", "done", "failed", "cancelled"]
    """Done: every object is in the cache. Failed: the job ended and some object is not, or the listing broke off."""
    reason: str | None
    """Why it failed as a whole, if it did."""
    concurrency: int
    started_at: float
    """Seconds since the Unix epoch."""
    ended_at: float | None
    listed: int
    """Objects found so far; all there are once `listing_ended`."""
    listing_ended: bool
    done: int
    failed: int
    bytes_listed: int
    """Bytes of the objects found so far whose size is known."""
    bytes_done: int
    failures: tuple[WarmFailure, ...]
    """The first few of the `failed`; how many are kept is the Control's to bound."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    name: ObjectName
    size: int
    etag: str
    memory: int
    """Bytes of it in the memory of all workers together, a block counted once."""
    ssd: int
    cached: int
    """Bytes of it in some tier, a block counted once: between max(memory, ssd) and their sum."""
    validated_at: float


@dataclass(frozen=True, slots=True)
class CachePage:
    objects: tuple[CacheEntry, ...]
    """In the order of their keys."""
    next: str | None
    """What to give as `after` to go on behind the last of these; None when there are no more."""


@dataclass(frozen=True, slots=True)
class Purged:
    objects: int
    size: int
    """Bytes that were held of them."""


@dataclass(frozen=True, slots=True)
class Resized:
    tier: TierName
    before: int
    """Bytes it could hold until now."""
    after: int


@dataclass(frozen=True, slots=True)
class NoSuchTier:
    """Forebay runs without this tier."""


class Control(Protocol):
    """The running server, as the admin port sees it. Every method may be called at any time, in any number at once."""

    async def readiness(self) -> Ready | NotReady:
        """Answers from what is known: a probe must not wait for the origin."""
        ...

    async def metrics(self) -> str:
        """Prometheus text, version 0.0.4."""
        ...

    async def stats(self) -> Stats: ...

    async def config(self) -> Document:
        """The effective configuration with its secrets redacted, in the form of the file."""
        ...

    async def replace_config(self, toml: str) -> ConfigChanged:
        """Take this configuration, whole or not at all. The file, if there is one, is not written."""
        ...

    async def reload_config(self) -> ConfigChanged | NoConfigFile:
        """Read the file again, as SIGHUP does."""
        ...

    async def start_job(self, order: WarmOrder) -> Job:
        """Returns at once, with the job running."""
        ...

    async def jobs(self) -> Sequence[Job]:
        """Those running and the latest that ended, newest first."""
        ...

    async def job(self, job_id: str) -> Job | None: ...

    async def cancel_job(self, job_id: str) -> Job | None:
        """The job, ended. One that had ended before stays as it was; None when there is no such job."""
        ...

    async def list_cached(self, bucket: str, prefix: str, after: str, limit: int) -> CachePage:
        """At most `limit` cached objects under `prefix`. `after` is empty, or the `next` of an earlier listing; one
        that means nothing (any more) may begin anywhere, but doesn't raise."""
        ...

    async def purge(self, bucket: str, prefix: str) -> Purged:
        """When it returns, no worker answers with anything of these objects that was cached before the call."""
        ...

    async def resize(self, tier: TierName, size: str) -> Resized | NoSuchTier:
        """Size a tier anew while it serves. `size` is written as in the configuration: "4GiB"."""
        ...
