"""The requests and answers of the admin port other than stats, as dataclasses: the one schema for HTTP and for workers.

The field names are the names in the JSON documents (docs/admin-port.md lists them). Programs read these: a field may
be added, none is renamed or dropped. Sizes are bytes, times seconds since the Unix epoch. No field may hold a secret.

A request's fields are annotated with the check that a value from outside has to pass: a function of the value and the
field's name, which returns the value or raises ValueError with a sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

from forebay.core.events import TierName
from forebay.core.names import MAX_BUCKET_BYTES, MAX_KEY_BYTES, ObjectName

Document: TypeAlias = Mapping[str, object]
"""A JSON object, as `json.dumps` accepts it."""

MAX_PAGE: Final = 1000
"""Objects in one answer of GET /v1/cache."""
MAX_CONCURRENCY: Final = 256
"""Objects that a job fetches at once, as in jobs.state.warm_up_order, which the supervisor does not import."""
JOBS_SURVIVE: Final = "A job that was cut off goes on after a restart, where it `survives`."


# Checks


def check_bucket(value: object, _name: str) -> str:
    """A bucket's name. Loose: the origin decides which exist."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= MAX_BUCKET_BYTES
        or not value.isascii()
        or not value.isprintable()
    ):
        raise ValueError("'bucket' is needed: the name of a bucket.")
    if "/" in value:
        raise ValueError("'bucket' may not hold a '/'; what follows the bucket is the prefix.")
    return value


def check_key(value: object, name: str) -> str:
    """A key or a prefix of keys, so it may be empty."""
    if not isinstance(value, str):
        raise ValueError(f"{name!r} must be text.")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can write and UTF-8 can't
        raise ValueError(f"{name!r} holds text that is not Unicode.") from error
    if size > MAX_KEY_BYTES:
        raise ValueError(f"{name!r} is longer than {MAX_KEY_BYTES} bytes, the longest that a key can be.")
    return value


def check_keys(value: object, name: str) -> tuple[str, ...]:
    """A list of keys; null counts as absent."""
    if value is None:
        return ()
    if not isinstance(value, list) or not value:
        raise ValueError("'keys' must be a list of at least one key.")
    if "" in value:
        raise ValueError("A key can't be empty.")
    return tuple(check_key(key, name) for key in value)


def check_concurrency(value: object, name: str) -> int | None:
    """Checks a number of objects at once, or null. True and False are not integers here."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_CONCURRENCY:
        raise ValueError(f"{name!r} must be a whole number from 1 to {MAX_CONCURRENCY}.")
    return value


def check_flag(value: object, name: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name!r} must be true or false.")
    return value


def check_after(value: object, name: str) -> int:
    """The `next` of a page of failures, or nothing."""
    text = str(value)
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ValueError(f"{name!r} must be the 'next' of an earlier page.")
    return int(text)


def check_limit(value: object, name: str) -> int:
    """The size of a page, from a query: decimal digits."""
    text = str(value)
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= MAX_PAGE:
        raise ValueError(f"{name!r} must be a whole number from 1 to {MAX_PAGE}.")
    return int(text)


def check_size(value: object, name: str) -> str:
    """A size as text, as in the configuration; its unit and bounds are for the settings to judge."""
    if not isinstance(value, str) or not 0 < len(value) <= 64:
        raise ValueError(f'{name!r} is needed, as text: a number and a unit, e.g. "4GiB".')
    return value


Bucket: TypeAlias = Annotated[str, check_bucket]
Key: TypeAlias = Annotated[str, check_key]
After: TypeAlias = Annotated[int, check_after]
Limit: TypeAlias = Annotated[int, check_limit]
SizeText: TypeAlias = Annotated[str, check_size]
Flag: TypeAlias = Annotated[bool, check_flag]


# Answers


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """A configuration was put in force. Both hold paths of settings, as in the file: `memory.size`, `rules`."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]
    """Differ from what runs and take effect at the next start only."""
    warnings: tuple[str, ...] = ()
    """Likely mistakes in the configuration, as sentences, and tiers that were made larger than what there is; none if
    nothing has changed."""


@dataclass(frozen=True, slots=True)
class WarmFailure:
    """An object that could not be warmed."""

    key: str
    reason: str
    """The reason as a sentence for people. Contains nothing that was sent to the origin."""
    bucket: str = ""


@dataclass(frozen=True, slots=True)
class FailurePage:
    """GET /v1/jobs/{id}/failures: one page of them, in the order of the job's objects."""

    failures: tuple[WarmFailure, ...]
    next: str | None
    """The `after` of the following page; None at the end."""


@dataclass(frozen=True, slots=True)
class Job:
    """A warm-up or pack job. Of a pack job `done` counts members, and nothing is cached."""

    id: str
    bucket: str
    """Empty: it has objects of several buckets."""
    prefix: str | None
    """None: it is not about one prefix alone; see `sources`."""
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    """Done: every wanted object is in the cache at the end, whole. Failed: some object is not, there was none, or the
    listing failed."""
    reason: str | None
    """Why it failed as a whole, if it did."""
    concurrency: int
    started_at: float
    ended_at: float | None
    listed: int
    """Objects found so far; all of them once `listing_ended`."""
    listing_ended: bool
    done: int
    """Objects that were warmed; by a check, looked at."""
    failed: int
    bytes_listed: int
    """Wanted bytes of the objects found so far whose size is known."""
    bytes_done: int
    """The part of `bytes_listed` that is stored, fetched or not."""
    failures: tuple[WarmFailure, ...]
    """The first few of the `failed`; the Control bounds how many are kept."""
    check: bool = False
    """The job fetches nothing, and counts what is cached."""
    if_fits: bool = False
    """The job fetches nothing unless everything fits."""
    capacity: int = 0
    """Bytes that the cache can keep of one set of objects, when the listing ended."""
    fits: bool | None = None
    """Whether all that is listed can be kept; None: not known yet, or a list of keys, whose sizes are not known."""
    kept: int | None = None
    """Objects that are in the cache at the end, whole; None: not counted (yet)."""
    bytes_kept: int = 0
    """Bytes in the cache at the end, also of objects that are there in part; a block counted once."""
    bytes_in_memory: int = 0
    """The part of `bytes_kept` that is in the memory of some worker."""
    bytes_on_ssd: int = 0
    not_kept: str | None = None
    """Why fewer objects are kept than were warmed, for people."""
    sources: tuple[str, ...] = ()
    """The first locations and globs that the job lists."""
    listed_sources: int = 0
    """The number of all sources."""
    listed_keys: int = 0
    """Objects that come from lists of keys."""
    rate: int | None = None
    """Bytes a second at most."""
    until: int | None = None
    """Bytes of the cache that the job's objects may have; None: no bound, or not known before the listing has ended."""
    newer_than: float | None = None
    older: int = 0
    """Objects that are left out, as they were modified before `newer_than`."""
    left_out: int = 0
    """Objects that are not fetched because of `until`."""
    bytes_fetched: int = 0
    """Bytes that came from the origin for it."""
    bytes_per_second: float | None = None
    """The speed of the last half minute, whatever is stored; None: too early to say, or it does not run."""
    seconds_left: float | None = None
    """An estimate; None: too early to say."""
    waiting_for: str | None = None
    """The reason why it waits, for people: mostly the origin."""
    warning: str | None = None
    """A warning to a person, in a sentence: the job goes on."""
    survives: bool = False
    """Whether it goes on after a restart of Forebay, which needs `server.state_dir`."""
    resumed: int = 0
    """The number of restarts after which the job went on."""
    action: str = "warm"
    """The action of a pack job: pack, check, delete or unpack."""
    note: str = field(init=False, default=JOBS_SURVIVE)


@dataclass(frozen=True, slots=True)
class JobList:
    """GET /v1/jobs: the jobs that run or wait, and the latest that ended, newest first."""

    jobs: tuple[Job, ...]
    note: str = field(init=False, default=JOBS_SURVIVE)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One object that is cached, whole or in part."""

    bucket: str
    key: str
    size: int
    etag: str
    memory: int
    """Bytes of it in the memory of all workers together, a block counted once."""
    ssd: int
    cached: int
    """Bytes of it in some tier, a block counted once: between max(memory, ssd) and their sum."""
    validated_at: float

    @property
    def name(self) -> ObjectName:
        """The object's name."""
        return ObjectName(self.bucket, self.key)


@dataclass(frozen=True, slots=True)
class CachePage:
    """GET /v1/cache: one page of the cached objects."""

    objects: tuple[CacheEntry, ...]
    """The objects in the order of their keys."""
    next: str | None
    """The `after` of the following page; None at the end."""


@dataclass(frozen=True, slots=True)
class Purged:
    """DELETE /v1/cache: how much was dropped."""

    objects: int
    size: int
    """Bytes that were cached of them."""


@dataclass(frozen=True, slots=True)
class Resized:
    """PUT /v1/tiers/{tier}: a tier's capacity, before and after."""

    tier: TierName
    before: int
    after: int
    warning: str | None = None
    """Why the tier can't have that much, or should not."""


@dataclass(frozen=True, slots=True)
class DecidedField:
    """One field of the decision about an object."""

    name: str
    value: str
    """The value as the configuration has it."""
    rule: int | None
    """The position of the rule that decided it, in the order of the file, from 0; None: the default."""
    path: str | None
    """The rule's path."""


@dataclass(frozen=True, slots=True)
class GrantedAccess:
    """The rights of a key to an object."""

    key: str
    allow: tuple[str, ...]
    """Sorted; empty: nothing."""
    grants: tuple[int, ...]
    """The positions of the grants that match the object, in the order of the file, from 0."""


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """The position of the bytes of a member of a pack."""

    shard: str
    """The key of the shard, in the same bucket."""
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """GET /v1/explain."""

    bucket: str
    key: str
    origin: str | None
    """The endpoint of the origin that has the bucket, with its name where it has one; None: none has it."""
    decided: tuple[DecidedField, ...]
    access: tuple[GrantedAccess, ...]
    """The rights of the key that was named, else of all keys; empty in open mode."""
    cached: CacheEntry | None
    in_doubt: bool
    """Whether a write's outcome is unknown, so that each read is revalidated."""
    fresh: bool | None
    """Whether the cached head may be used without a request; None: none is cached."""
    stale_because: str | None
    read: str
    """The result that a plain read would have now."""
    pending: str | None = None
    """The last write of it that is acknowledged and not at the origin: "put" or "delete"; None: there is none."""
    member: MemberPlace | None = None
    """The place of the member that a read would have; None: an object may be there, or no pack that is known has it."""
    shard: CacheEntry | None = None
    """The cached bytes of the shard of the member."""
