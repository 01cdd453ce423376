"""The state of one warm-up job, as the admin port shows it.

    running ──> done         every object that it is about is in the cache, whole
           ├──> failed       some object is not; or there is no object; or the listing failed
           └──> cancelled

A *check* is a job that fetches nothing: it lists, and counts what is cached.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

MAX_FAILURES: Final = 1000
"""Failures recorded of one job."""

JobState: TypeAlias = Literal["running", "done", "failed", "cancelled"]

NOT_FITTING: Final = "the rest did not fit"
EVICTED: Final = "the rest was evicted again, or no tier admitted it"


@dataclass(slots=True)
class WarmUpJob:
    """One job. Sizes in bytes, times in seconds since the epoch."""

    id: str
    bucket: str
    prefix: str | None
    """None: the job has a list of keys."""
    concurrency: int
    started_at: float
    check: bool = False
    """Whether it only counts what is cached."""
    if_fits: bool = False
    """Whether it fetches nothing unless everything fits."""
    state: JobState = "running"
    reason: str | None = None
    ended_at: float | None = None
    listed: int = 0
    listing_ended: bool = False
    done: int = 0
    failed: int = 0
    bytes_listed: int = 0
    bytes_done: int = 0
    capacity: int = 0
    """What the cache can keep of one set of objects, when the listing ended."""
    fits: bool | None = None
    """Whether `bytes_listed` is at most `capacity`; None: not known yet, or the sizes are not."""
    kept: int | None = None
    """Objects that are in the cache, whole, at the end; None: not counted."""
    bytes_kept: int = 0
    """Bytes in the cache at the end, also of objects that are there in part; a block counted once."""
    bytes_in_memory: int = 0
    bytes_on_ssd: int = 0
    not_kept: str | None = None
    """Why fewer objects are kept than were warmed."""
    failures: list[tuple[str, str]] = field(default_factory=list)
    """The first MAX_FAILURES, as key and reason."""

    def fail(self, key: str, reason: str) -> None:
        """Records a failure."""
        self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append((key, reason))

    def end_listing(self, capacity: int) -> None:
        """All objects are known. Judges whether they fit, if the listing had their sizes."""
        self.listing_ended = True
        self.capacity = capacity
        if self.prefix is not None:
            self.fits = self.bytes_listed <= capacity
        if self.listed == 0 and self.reason is None:
            self.reason = f"no key begins with {self.prefix!r}" if self.prefix else "there is no object"
        if self.if_fits and not self.fits and self.reason is None:
            self.reason = "nothing was fetched, because it does not fit"

    @property
    def may_fetch(self) -> bool:
        """Whether objects are to be fetched, after the listing."""
        return not self.check and not (self.if_fits and self.reason is not None)

    def end(self) -> None:
        """The work is done, and what is kept was counted."""
        kept = self.kept or 0
        if not self.check and kept < self.done:
            self.not_kept = NOT_FITTING if self.bytes_listed > self.capacity else EVICTED
        self.state = "done" if self.reason is None and not self.failed and kept == self.listed else "failed"
