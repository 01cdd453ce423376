"""The verbs of the admin port. One worker (WorkerControl) or a node of several (NodeControl) implements them.

The port owns HTTP: permission, bounds, JSON. A Control owns the meaning: only it knows settings, tiers and warm-up. The
parameters and the result of a verb are the request and the answer (admin_schema, stats_schema); the routes read them
from the annotations. A verb may raise, and the port translates (admin_server):

    SettingsError   a configuration, or a size, that is refused; then nothing at all was changed
    Throttled       a limit is used up, e.g. too many jobs at once
    PinRefused      a prefix can't be pinned; then nothing was changed
    OriginError     the origin was needed and could not be read
"""

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, Protocol

from forebay.core.errors import PinRefused, SettingsError
from forebay.core.events import TierName
from forebay.core.names import ObjectName
from forebay.core.pending_write import PendingPage, PendingWrite
from forebay.core.plan_progress import PlanList, PlanProgress
from forebay.server.admin.admin_schema import (
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
from forebay.server.admin.change_log import change_sentence
from forebay.server.admin.data_set_schema import AdviceList, AdviceSource, DataSetList, check_source
from forebay.server.admin.key_list import KeyList, KeyListEntry
from forebay.server.admin.pack_request import PackRequest
from forebay.server.admin.pending_schema import (
    Flushed,
    PendingContent,
    PendingDiscarded,
    PendingRetried,
    StateName,
    Wait,
)
from forebay.server.admin.pin_schema import PinChange, PinList, PinRemoved, PinView
from forebay.server.admin.plan_schema import PlanOrder, PlanSent
from forebay.server.admin.readiness import Readiness
from forebay.server.admin.recording_schema import (
    Content,
    Offset,
    RecordingList,
    RecordingPart,
    RecordingRemoved,
    RecordingStored,
    ReplayOrder,
)
from forebay.server.admin.stats_schema import Stats
from forebay.server.admin.warm_order import WarmOrder
from forebay.server.config_source import SENT_NAME, ConfigSource, SizeOverrides, set_log_level
from forebay.settings.effective_config import changed_paths, effective_config
from forebay.settings.live_changes import applied_settings, restart_needed
from forebay.settings.loader import Loaded
from forebay.settings.model import Settings

_log = logging.getLogger(__name__)

PURGE_PAGE_SIZE: Final = 1000
"""Objects that a purge drops at once."""


class Control(Protocol):
    """The running server, as the admin port sees it. Every verb may be called at any time, any number at once."""

    async def readiness(self) -> Readiness:
        """Whether requests can be served, from what is known: a probe must not wait for the origin."""
        ...

    async def metrics(self) -> str:
        """Prometheus text, version 0.0.4."""
        ...

    async def stats(self) -> Stats:
        """What was done since the start, and how full the tiers are."""
        ...

    async def config(self) -> Document:
        """The effective configuration with its secrets redacted, in the form of the file."""
        ...

    async def replace_config(self, toml: str) -> ConfigChanged:
        """Put this configuration in force, whole or not at all. The file, if there is one, is not written."""
        ...

    async def reload_config(self) -> ConfigChanged | None:
        """Read the file again, as SIGHUP does; None: Forebay was started without one."""
        ...

    async def start_job(self, order: WarmOrder) -> Job | None:
        """Start a warm-up job. Returns at once, with the job running or queued; None: a list of it is unknown."""
        ...

    async def start_pack(self, order: PackRequest) -> Job:
        """Start a pack job. Returns at once, with the job running or queued."""
        ...

    async def extend_list(self, list_id: str, entries: list[KeyListEntry]) -> KeyList | None:
        """Add objects to a list, a new one if the id is empty. None: there is no such list (any more)."""
        ...

    async def jobs(self) -> JobList:
        """The jobs that run and the latest that ended."""
        ...

    async def job(self, job_id: str) -> Job | None:
        """The job, or None."""
        ...

    async def cancel_job(self, job_id: str) -> Job | None:
        """The job, ended. One that had ended before stays as it was; None when there is no such job."""
        ...

    async def job_failures(self, job_id: str, after: After = 0, limit: Limit = MAX_PAGE) -> FailurePage | None:
        """A page of the objects that a job could not warm; None when there is no such job."""
        ...

    async def list_cached(
        self, bucket: Bucket, prefix: Key = "", after: Key = "", limit: Limit = MAX_PAGE
    ) -> CachePage:
        """A page of the cached objects under `prefix`. `after` is empty, or the `next` of an earlier page; one that is
        not understood (any more) may begin anywhere, but doesn't raise."""
        ...

    async def plans(self) -> PlanList:
        """The plans that run or wait, and the latest that have ended."""
        ...

    async def send_plan(self, order: PlanOrder) -> PlanSent:
        """Run a plan in the name of an access key."""
        ...

    async def plan(self, plan_id: str) -> PlanProgress | None:
        """The plan, or None."""
        ...

    async def cancel_plan(self, plan_id: str) -> PlanProgress | None:
        """The plan, ended. One that had ended before stays as it was; None when there is no such plan."""
        ...

    async def data_sets(self) -> DataSetList:
        """What is known, cached and read of the objects under each rule."""
        ...

    async def advice(self, source: Annotated[AdviceSource, check_source] = "reads") -> AdviceList:
        """What other tiers and the other eviction would give each data set, and what to set."""
        ...

    async def explain(self, bucket: Bucket, key: Key, access_key: Key = "") -> Explanation:
        """What the settings decide for one object, what is cached of it, and what a read by `access_key` (empty: by
        any key) would do now."""
        ...

    async def pins(self) -> PinList:
        """The pinned prefixes, and what the SSD tier has of them."""
        ...

    async def pin(self, bucket: Bucket, prefix: Key = "") -> PinView:
        """Pin a prefix: what is or comes on the SSD of it stays there, in every worker, also after a restart. Raises
        PinRefused."""
        ...

    async def unpin(self, bucket: Bucket, prefix: Key = "") -> PinRemoved | None:
        """Unpin a prefix; None: it is not pinned."""
        ...

    async def purge(self, bucket: Bucket, prefix: Key = "") -> Purged:
        """Drop what is cached under `prefix`. When it returns, no worker answers with anything of these objects that
        was cached before the call."""
        ...

    async def recordings(self, bucket: Key = "") -> RecordingList:
        """The recordings of all principals; of one bucket, if it is named."""
        ...

    async def recording_part(self, bucket: str, name: str, offset: Offset = 0) -> RecordingPart | None:
        """A part of a recording's file; None: there is none that has ended."""
        ...

    async def store_recording(self, bucket: str, name: str, content: Content) -> RecordingStored:
        """Keep a recording that was made elsewhere; it belongs to nobody."""
        ...

    async def save_recording(
        self, bucket: str, name: str, source: Key = "", shared: Flag = False
    ) -> RecordingStored | None:
        """Name a recording, so that it stays: `source`, or the latest automatic one. `shared`: it belongs to nobody
        from then on. None: there is none."""
        ...

    async def replay_recording(self, bucket: str, name: str, order: ReplayOrder) -> Job | None:
        """Start a job that warms what was read, in the recorded order; None: there is no such recording."""
        ...

    async def remove_recording(self, bucket: str, name: str) -> RecordingRemoved | None:
        """Remove a recording; None: there is none."""
        ...

    async def pending_writes(
        self, bucket: Key = "", prefix: Key = "", state: StateName = "", after: Key = "", limit: Limit = MAX_PAGE
    ) -> PendingPage | None:
        """A page of the writes that are acknowledged and not at the origin; None: Forebay runs without a journal."""
        ...

    async def flush_writes(
        self, bucket: Bucket, prefix: Key = "", wait: Wait = 0.0, before: Key = ""
    ) -> Flushed | None:
        """Wait until the writes that are pending now under `prefix` are at the origin, for `wait` seconds at most.
        `before`: that of an earlier flush, which is gone on with. None: Forebay runs without a journal."""
        ...

    async def pending_write(self, write_id: str) -> PendingWrite | None:
        """The write, or None."""
        ...

    async def pending_content(self, write_id: str, offset: Offset = 0) -> PendingContent | None:
        """A part of the object that the write makes; None: it is not pending, or a deletion."""
        ...

    async def retry_write(self, write_id: str) -> PendingRetried | None:
        """Have a stuck write tried again; None: it is not pending."""
        ...

    async def discard_write(self, write_id: str, bucket: Bucket, key: Key) -> PendingDiscarded | None:
        """Give a stuck write up, which must be one of this object; None: there is no such write."""
        ...

    async def resize(self, tier: TierName, size: SizeText) -> Resized | None:
        """Change a tier's capacity while it serves. `size` is written as in the configuration: "4GiB". None: Forebay
        runs without this tier."""
        ...


class SharedControl(Control):
    """The verbs that one worker and a node of several answer alike."""

    def __init__(self, settings: Settings, source: ConfigSource) -> None:
        self.settings = settings
        """As configured, as far as it is in force."""
        self.source = source
        self.size_overrides = SizeOverrides()
        self.is_ending = False
        """Whether Forebay was told to stop, so that it is not ready any more."""

    async def config(self) -> Document:
        """The settings in force, with the tiers' current sizes."""
        return effective_config(self.size_overrides.apply(self.settings))

    async def replace_config(self, toml: str) -> ConfigChanged:
        """Put the sent configuration in force."""
        return await self._apply_text(toml, 0o600, SENT_NAME)

    async def reload_config(self) -> ConfigChanged | None:
        """Put the file's configuration in force."""
        if self.source.file is None:
            return None
        try:
            text, mode = await self.source.reread()
        except SettingsError:
            self._config_refused()
            raise
        return await self._apply_text(text, mode)

    async def reload_and_log(self) -> None:
        """`reload_config` for SIGHUP: the log has the outcome. A refused configuration changes nothing."""
        try:
            answer = await self.reload_config()
        except SettingsError as error:
            _log.error("the configuration is refused, nothing has changed: %s", error)
        else:
            _log.info("%s", change_sentence(answer) or "there is no configuration file to read again")

    async def start_job(self, order: WarmOrder) -> Job | None:
        """Pin what is to be pinned, or nothing of it, and start the job."""
        if order.pin:
            before = {(pin.bucket, pin.prefix) for pin in (await self.pins()).pins}
            made: list[PinView] = []
            try:
                for bucket, prefix in order.prefixes():
                    made.append(await self.pin(bucket, prefix))
            except PinRefused:
                for pin in made:
                    if (pin.bucket, pin.prefix) not in before:
                        await self.unpin(pin.bucket, pin.prefix)
                raise
        return await self._start_job(replace(order, pin=False))

    async def pin(self, bucket: str, prefix: str = "") -> PinView:
        """Change the pins, in all workers."""
        change = await self._change_pins(bucket, prefix, is_pinned=True)
        if change.pin is None:
            raise PinRefused(change.problem or "")
        return change.pin

    async def unpin(self, bucket: str, prefix: str = "") -> PinRemoved | None:
        """Change the pins, in all workers."""
        change = await self._change_pins(bucket, prefix, is_pinned=False)
        if change.problem is not None:
            raise PinRefused(change.problem)
        return PinRemoved(change.pin) if change.pin is not None else None

    async def job(self, job_id: str) -> Job | None:
        """The job of this id, of all known."""
        return next((job for job in (await self.jobs()).jobs if job.id == job_id), None)

    async def plan(self, plan_id: str) -> PlanProgress | None:
        """The plan of this id, of all known."""
        return next((plan for plan in (await self.plans()).plans if plan.id == plan_id), None)

    async def explain(self, bucket: str, key: str, access_key: str = "") -> Explanation:
        """By the settings in force, and the listing of the cache."""
        page = await self.list_cached(bucket, key, limit=1)  # the prefix itself comes first
        cached = next((entry for entry in page.objects if entry.key == key), None)
        name = ObjectName(bucket, key)
        in_doubt = await self._is_in_doubt(name)
        from forebay.server.admin.explanation import explain  # noqa: PLC0415 # a supervisor starts without the policies

        return explain(self.settings, name, access_key, cached, in_doubt=in_doubt, now=self._now())

    async def purge(self, bucket: str, prefix: str = "") -> Purged:
        """Invalidate what is listed under the prefix, page by page, and drop the listings themselves."""
        await self._drop_listings(bucket, prefix)
        objects = size = 0
        after: str | None = ""
        while after is not None:
            page = await self.list_cached(bucket, prefix, after, PURGE_PAGE_SIZE)
            objects += len(page.objects)
            size += sum(entry.cached for entry in page.objects)
            await self._invalidate([entry.name for entry in page.objects])
            after = page.next
        return Purged(objects, size)

    async def load(self, text: str | None, mode: int, name: str | None = None) -> Loaded:
        """The settings of a configuration's text, validated as a whole. Raises SettingsError."""
        try:
            return await asyncio.to_thread(self.source.load_text, text, mode, name)
        except SettingsError:
            self._config_refused()
            raise

    def put_in_force(self, loaded: Loaded) -> tuple[ConfigChanged, list[tuple[TierName, int]]]:
        """Make a configuration the current one. What has changed, and the tiers that have a new size by it."""
        old, new = self.settings, loaded.settings
        self.settings = applied_settings(old, new)
        set_log_level(new)
        sizes = list(self.size_overrides.drop_changed(old, self.settings))
        return ConfigChanged(tuple(changed_paths(old, new)), tuple(restart_needed(old, new))), sizes

    def _config_refused(self) -> None:
        """Called when a configuration was refused."""

    @abstractmethod
    async def _apply_text(self, text: str | None, mode: int, name: str | None = None) -> ConfigChanged:
        """Load a configuration's text and put it in force."""

    @abstractmethod
    async def _start_job(self, order: WarmOrder) -> Job | None:
        """Start a job whose prefixes are pinned already."""

    @abstractmethod
    async def _change_pins(self, bucket: str, prefix: str, *, is_pinned: bool) -> PinChange:
        """Pin or unpin a prefix, in all workers."""

    @abstractmethod
    async def _is_in_doubt(self, name: ObjectName) -> bool:
        """Whether a write to the object is in doubt."""

    def _now(self) -> float:
        """The clock of freshness, in seconds since the epoch."""
        return time.time()

    @abstractmethod
    async def _drop_listings(self, bucket: str, prefix: str) -> None:
        """Drop the snapshots of namespaces with keys under the prefix, in all workers."""

    @abstractmethod
    async def _invalidate(self, names: Sequence[ObjectName]) -> None:
        """Drop these objects in all workers."""
