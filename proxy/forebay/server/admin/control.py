"""The verbs of the admin port, by noun. One worker (worker_control) or a node of several (workers.node_control) has an
implementation of each interface here, and a Control names them.

The port owns HTTP: permission, bounds, JSON. A verb owns the meaning: only it knows settings, tiers and jobs. A verb is
declared here once, and implemented for one worker. From its declaration follow:

    the request and the answer    its parameters and its result (admin_schema, stats_schema, ...), read by the routes
    the call of a worker          its qualified name is the kind, e.g. "PinVerbs.unpin" (workers.worker_rpc)
    the verb of a node            a client stub of the first worker, where any can answer for all (workers.worker_calls)

Any verb may be called at any time, any number at once. It may raise, and the port translates (admin_server):

    SettingsError   a configuration, or a size, that is refused; then nothing at all was changed
    Throttled       a limit is used up, e.g. too many jobs at once
    PinRefused      a prefix can't be pinned; then nothing was changed
    OrderRefused    an order names a list, recording or plan that is not there
    OriginError     the origin was needed and could not be read
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any, Protocol

from forebay.core.events import TierName
from forebay.core.pending_write import PendingPage, PendingWrite
from forebay.core.plan_progress import PlanList, PlanProgress
from forebay.server.admin.key_list import KeyList, KeyListEntry
from forebay.server.admin.readiness import Readiness
from forebay.server.admin.schema.admin_schema import (
    MAX_PAGE,
    After,
    Bucket,
    CachePage,
    ConfigChanged,
    Document,
    Explanation,
    FailurePage,
    Flag,
    Job,
    JobList,
    Key,
    Limit,
    Purged,
    Resized,
    SizeText,
)
from forebay.server.admin.schema.data_set_schema import AdviceList, AdviceSource, DataSetList, check_source
from forebay.server.admin.schema.pack_request import PackRequest
from forebay.server.admin.schema.pending_schema import (
    Flushed,
    PendingContent,
    PendingDiscarded,
    PendingRetried,
    StateName,
    Wait,
)
from forebay.server.admin.schema.pin_schema import PinList, PinRemoved, PinView
from forebay.server.admin.schema.plan_schema import PlanOrder, PlanSent
from forebay.server.admin.schema.recording_schema import (
    Content,
    Offset,
    RecordingList,
    RecordingPart,
    RecordingRemoved,
    RecordingStored,
    ReplayOrder,
)
from forebay.server.admin.schema.stats_schema import Stats
from forebay.server.admin.schema.warm_order import WarmOrder


class StateVerbs(Protocol):
    """The verbs about the running server."""

    async def readiness(self) -> Readiness:
        """Whether requests can be served, by the latest checks: a probe must not wait for the origin."""
        ...

    async def metrics(self) -> str:
        """Prometheus text, version 0.0.4."""
        ...

    async def stats(self) -> Stats:
        """The counters since the start, and how full the tiers are."""
        ...


class ConfigVerbs(Protocol):
    """The verbs about the configuration."""

    async def config(self) -> Document:
        """The effective configuration with its secrets redacted, in the form of the file."""
        ...

    async def replace_config(self, toml: str) -> ConfigChanged:
        """Puts this configuration in force, whole or not at all. The file, if there is one, is not written."""
        ...

    async def reload_config(self) -> ConfigChanged | None:
        """Reads the file again, as SIGHUP does; None: Forebay was started without one."""
        ...

    async def resize(self, tier: TierName, size: SizeText) -> Resized | None:
        """Changes a tier's capacity while it serves. `size` is written as in the configuration: "4GiB". None: Forebay
        runs without this tier."""
        ...


class JobVerbs(Protocol):
    """The verbs about jobs, and about the lists that they take."""

    async def start_job(self, order: WarmOrder) -> Job:
        """Starts a warm-up job. Returns at once, with the job running or queued. Raises OrderRefused."""
        ...

    async def start_pack(self, order: PackRequest) -> Job:
        """Starts a pack job. Returns at once, with the job running or queued."""
        ...

    async def replay_recording(self, bucket: str, name: str, order: ReplayOrder) -> Job | None:
        """Starts a job that warms the objects of a recording in its order; None: there is no such recording."""
        ...

    async def extend_list(self, list_id: str, entries: list[KeyListEntry]) -> KeyList | None:
        """Adds objects to a list, a new one if the id is empty. None: there is no such list (any more)."""
        ...

    async def jobs(self) -> JobList:
        """The jobs that run and the latest that ended."""
        ...

    async def job(self, job_id: str) -> Job | None:
        """The job, or None."""
        ...

    async def cancel_job(self, job_id: str) -> Job | None:
        """Cancels a job, and returns it. A job that has ended stays as it was. None: there is no such job."""
        ...

    async def job_failures(self, job_id: str, after: After = 0, limit: Limit = MAX_PAGE) -> FailurePage | None:
        """A page of the objects that a job could not warm; None when there is no such job."""
        ...


class CacheVerbs(Protocol):
    """The verbs about cached objects."""

    async def list_cached(
        self, bucket: Bucket, prefix: Key = "", after: Key = "", limit: Limit = MAX_PAGE
    ) -> CachePage:
        """A page of the cached objects under `prefix`. `after` is empty, or the `next` of an earlier page; one that is
        not understood (any more) may begin anywhere, but doesn't raise."""
        ...

    async def explain(self, bucket: Bucket, key: Key, access_key: Key = "") -> Explanation:
        """The decision of the settings for one object, its cached blocks, and the outcome of a read by `access_key`
        (empty: by any key) now."""
        ...

    async def purge(self, bucket: Bucket, prefix: Key = "") -> Purged:
        """Drops the cached objects under `prefix`. From its return on, no worker answers with bytes or heads that were
        cached before the call."""
        ...


class DataSetVerbs(Protocol):
    """The verbs about data sets."""

    async def data_sets(self) -> DataSetList:
        """The objects under each rule: how many are known, cached and read."""
        ...

    async def advice(self, source: Annotated[AdviceSource, check_source] = "reads") -> AdviceList:
        """The hit shares of each data set with other tiers and evictions, and the settings to choose."""
        ...


class PinVerbs(Protocol):
    """The verbs about pinned prefixes."""

    async def pins(self) -> PinList:
        """The pinned prefixes, and their bytes on the SSD tier."""
        ...

    async def pin(self, bucket: Bucket, prefix: Key = "") -> PinView:
        """Pins a prefix: its blocks on the SSD stay there, in every worker, also after a restart. Raises PinRefused."""
        ...

    async def unpin(self, bucket: Bucket, prefix: Key = "") -> PinRemoved | None:
        """Unpins a prefix; None: it is not pinned."""
        ...


class PlanVerbs(Protocol):
    """The verbs about plans."""

    async def plans(self) -> PlanList:
        """The plans that run or wait, and the latest that have ended."""
        ...

    async def send_plan(self, order: PlanOrder) -> PlanSent:
        """Runs a plan in the name of an access key."""
        ...

    async def plan(self, plan_id: str) -> PlanProgress | None:
        """The plan, or None."""
        ...

    async def cancel_plan(self, plan_id: str) -> PlanProgress | None:
        """Cancels a plan, and returns it. A plan that has ended stays as it was. None: there is no such plan."""
        ...


class RecordingVerbs(Protocol):
    """The verbs about recordings."""

    async def recordings(self, bucket: Key = "") -> RecordingList:
        """The recordings of all principals; of one bucket, if it is named."""
        ...

    async def recording_part(self, bucket: str, name: str, offset: Offset = 0) -> RecordingPart | None:
        """A part of a recording's file; None: there is none that has ended."""
        ...

    async def store_recording(self, bucket: str, name: str, content: Content) -> RecordingStored:
        """Keeps a recording that was made elsewhere; it has no owner."""
        ...

    async def save_recording(
        self, bucket: str, name: str, source: Key = "", shared: Flag = False
    ) -> RecordingStored | None:
        """Names a recording, so that it stays: `source`, or the latest automatic one. `shared`: it has no owner from
        then on. None: there is none."""
        ...

    async def remove_recording(self, bucket: str, name: str) -> RecordingRemoved | None:
        """Removes a recording; None: there is none."""
        ...


class WriteVerbs(Protocol):
    """The verbs about writes that are acknowledged, and not at the origin yet."""

    async def pending_writes(
        self, bucket: Key = "", prefix: Key = "", state: StateName = "", after: Key = "", limit: Limit = MAX_PAGE
    ) -> PendingPage | None:
        """A page of the writes that are acknowledged and not at the origin; None: Forebay runs without a journal."""
        ...

    async def flush_writes(
        self, bucket: Bucket, prefix: Key = "", wait: Wait = 0.0, before: Key = ""
    ) -> Flushed | None:
        """Waits until the writes that are pending now under `prefix` are at the origin, or all remaining ones wait for
        stuck ones, for `wait` seconds at most. `before`: that of an earlier flush, which is continued. None: Forebay
        runs without a journal."""
        ...

    async def pending_write(self, write_id: str) -> PendingWrite | None:
        """The write, or None."""
        ...

    async def pending_content(self, write_id: str, offset: Offset = 0) -> PendingContent | None:
        """A part of the object that the write makes; None: it is not pending, or a deletion."""
        ...

    async def retry_write(self, write_id: str) -> PendingRetried | None:
        """Has a stuck write tried again; None: it is not pending."""
        ...

    async def discard_write(self, write_id: str, bucket: Bucket, key: Key) -> PendingDiscarded | None:
        """Gives a stuck write up, which must be one of this object; None: there is no such write."""
        ...


@dataclass(frozen=True, slots=True)
class Control:
    """The implementations of all verbs of a running server."""

    state: StateVerbs
    config: ConfigVerbs
    jobs: JobVerbs
    cache: CacheVerbs
    data_sets: DataSetVerbs
    pins: PinVerbs
    plans: PlanVerbs
    recordings: RecordingVerbs
    writes: WriteVerbs

    def implementations(self) -> Iterator[tuple[Any, object]]:
        """The interfaces, each with its implementation."""
        return ((each.type, getattr(self, each.name)) for each in fields(self))

    def method(self, verb: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        """Returns the method that implements a verb, which is named as its interface declares it: `PinVerbs.unpin`."""
        interface, _, name = verb.__qualname__.partition(".")
        found = next(owner for declared, owner in self.implementations() if declared.__name__ == interface)
        method: Callable[..., Awaitable[object]] = getattr(found, name)
        return method
