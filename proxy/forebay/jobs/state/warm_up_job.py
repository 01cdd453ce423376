"""The state of one warm-up job, and its end.

    queued ──> running ──> done every object of the job is in the cache, whole
                      ├──> failed       some object is not; or there is no object; or the listing failed
                      └──> cancelled

A *check* is a job that fetches nothing: it lists, and counts the cached objects. The next process queues an unended job
again (jobs.state.job_store).
"""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from forebay.jobs.state.job_progress import JobPosition, JobSpeed, WarmUpFailure
from forebay.jobs.state.warm_up_order import WarmUpOrder
from forebay.protocol.packs.packed_member import PackShard

MAX_FAILURES: Final = 1000
"""Failures kept in memory of one job. The report on the disk has more (jobs.state.job_store)."""

JobState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: Final = frozenset[JobState]({"done", "failed", "cancelled"})

NOT_FITTING: Final = "the rest did not fit"
EVICTED: Final = "the rest was evicted again, no tier admitted it, or a worker ended before it was stored"


@dataclass(slots=True)
class WarmUpJob:
    """One job. Sizes in bytes, times in seconds since the epoch."""

    id: str
    order: WarmUpOrder
    started_at: float
    state: JobState = "queued"
    reason: str | None = None
    ended_at: float | None = None
    survives: bool = False
    """Whether the job goes on after a restart, as it has a record on the disk."""
    resumed: int = 0
    """The number of restarts after which the job went on."""
    waiting_for: str | None = None
    """The reason why it waits, for people; None: it does not wait."""
    bucket: str = ""
    """The bucket of all its objects; empty: they are in several."""
    listed: int = 0
    listing_ended: bool = False
    older: int = 0
    """Objects of the listing that are left out, as they are not new enough."""
    left_out: int = 0
    """Objects that are not fetched, as the job has as much of the cache as it may."""
    done: int = 0
    failed: int = 0
    bytes_listed: int = 0
    """Wanted bytes of the objects whose size is known."""
    bytes_done: int = 0
    bytes_fetched: int = 0
    """The part of `bytes_done` that came from the origin for this job."""
    capacity: int = 0
    """Bytes that the cache could keep of one set of objects when the listing ended."""
    fits: bool | None = None
    """Whether all that is wanted is at most `capacity`; None: not known yet, or the sizes are not."""
    kept: int | None = None
    """Objects that are in the cache, whole, at the end; None: not counted."""
    bytes_kept: int = 0
    """Bytes in the cache at the end, also of objects that are there in part; a block counted once."""
    bytes_in_memory: int = 0
    bytes_on_ssd: int = 0
    not_kept: str | None = None
    """Why fewer objects are kept than were warmed."""
    failures: list[WarmUpFailure] = field(default_factory=list)
    """The first MAX_FAILURES."""
    shards: list[PackShard] = field(default_factory=list)
    """The shards of a pack job that are written and verified."""
    position: JobPosition = field(default_factory=JobPosition)
    speed: JobSpeed = field(default_factory=JobSpeed)

    @property
    def kind(self) -> str:
        """The action of the job, in a word for the log."""
        return "warm-up" if self.order.pack is None else self.order.pack.action

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens."""
        return self.state in ENDED

    @property
    def wanted(self) -> int:
        """Objects that are to be in the cache at the end."""
        return self.listed - self.left_out

    @property
    def sizes_known(self) -> bool:
        """Whether the listing had the size of each object."""
        return not self.order.listed_keys

    @property
    def prefix(self) -> str | None:
        """The prefix of a job that is about one prefix alone."""
        source = self.order.sources[0] if len(self.order.sources) == 1 and not self.order.listed_keys else None
        return source.prefix if source is not None and source.glob is None else None

    def fail(self, failure: WarmUpFailure) -> None:
        """Records a failure."""
        self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append(failure)

    def end_listing(self, capacity: int) -> None:
        """Ends the listing: all objects are known. Judges whether they fit, if the listing had their sizes."""
        self.listing_ended = True
        self.capacity = capacity
        if self.sizes_known:
            until = self.order.until(capacity)
            self.fits = (self.bytes_listed if until is None else min(until, self.bytes_listed)) <= capacity
        if self.listed == 0 and self.reason is None:
            self.reason = self._nothing_found()
        if self.order.if_fits and not self.fits and self.reason is None:
            self.reason = "nothing was fetched, because it does not fit"

    def _nothing_found(self) -> str:
        if self.older:
            return f"none of {self.older} objects is new enough"
        source = self.order.sources[0] if len(self.order.sources) == 1 else None
        if source is None or not (source.glob or source.prefix):
            return "there is no object"
        return f"no key matches {source.glob!r}" if source.glob is not None else f"no key begins with {source.prefix!r}"

    @property
    def may_fetch(self) -> bool:
        """Whether objects are to be fetched, after the listing."""
        return not self.order.check and not (self.order.if_fits and self.reason is not None)

    def end(self) -> None:
        """Ends the job: its work is done, and its cached objects are counted."""
        kept = self.kept or 0
        if not self.order.check and kept < self.done:
            self.not_kept = NOT_FITTING if self.bytes_done > self.capacity else EVICTED
        self.state = "done" if self.reason is None and not self.failed and kept == self.wanted else "failed"

    def note_speed(self, now: float) -> None:
        """Adds the present counts to the speed. `now`: seconds of a monotonic clock."""
        self.speed.add_sample(now, self.bytes_done, self.done + self.failed)

    def start_over(self) -> None:
        """Resets the job to its inventory: the fetched objects were lost with the process."""
        self.position = JobPosition()
        self.done = self.failed = self.bytes_done = self.left_out = 0
        self.failures = []
