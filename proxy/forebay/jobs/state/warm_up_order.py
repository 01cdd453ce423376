"""The order of a warm-up job: which objects, and within which bounds. It outlives the process (state.job_store)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, NamedTuple, Self

from forebay.jobs.state.pack_order import PackOrder
from forebay.policy.path_patterns import Pattern

DEFAULT_CONCURRENCY: Final = 8
"""Objects at once."""
MAX_CONCURRENCY: Final = 256
WILDCARDS: Final = "*?"


class ListedSource(NamedTuple):
    """Objects that the origin lists."""

    bucket: str
    prefix: str
    """The prefix of the keys, or the glob that they match."""
    glob: str | None = None
    """A pattern over whole keys, with the wildcards of rules (policy.path_patterns)."""

    @classmethod
    def matching(cls, bucket: str, glob: str) -> Self:
        """Returns the source of a glob. The prefix before its first wildcard is listed."""
        literal = min((glob.index(mark) for mark in WILDCARDS if mark in glob), default=len(glob))
        return cls(bucket, glob[:literal], glob)

    @property
    def url(self) -> str:
        """This source as on the command line."""
        path = self.prefix if self.glob is None else self.glob
        return f"s3://{self.bucket}/{path}" if path else f"s3://{self.bucket}"

    def pattern(self) -> Pattern | None:
        """The pattern that paths (`bucket/key`) must match; None: every key of the prefix is meant."""
        return None if self.glob is None else Pattern(f"{self.bucket}/{self.glob}")


@dataclass(frozen=True, slots=True)
class WarmUpOrder:
    """The order of a job. Sizes in bytes, times in seconds since the epoch."""

    sources: tuple[ListedSource, ...] = ()
    """Listed in this order, behind the entries of the job's lists."""
    listed_keys: int = 0
    """Entries of lists, which the inventory begins with."""
    concurrency: int = DEFAULT_CONCURRENCY
    check: bool = False
    """Whether the job fetches nothing, and only counts the cached objects."""
    if_fits: bool = False
    """Whether it fetches nothing unless everything fits."""
    rate: int | None = None
    """Bytes a second that it fetches at most; None: as fast as its turn lets it."""
    until_share: float | None = None
    """The share of the cache at which the job ends, when its objects have it."""
    until_size: int | None = None
    """The bytes at which the job ends, when its objects have them."""
    newer_than: float | None = None
    """Objects of a listing that were modified before are left out."""
    pack: PackOrder | None = None
    """The order of a job that writes or reads packs. Of the other fields only `sources` has a meaning then."""

    def until(self, capacity: int) -> int | None:
        """Bytes of the cache that the job may fill; None: as many as its objects have."""
        if self.until_share is not None:
            return int(self.until_share * capacity)
        return self.until_size

    def to_document(self) -> dict[str, Any]:
        """This order as JSON."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The order that `to_document` wrote. Raises KeyError, TypeError, ValueError."""
        values = {field.name: document[field.name] for field in fields(cls)}
        values["sources"] = tuple(ListedSource(*each) for each in values["sources"])
        if values["pack"] is not None:
            values["pack"] = PackOrder.from_document(values["pack"])
        return cls(**values)
