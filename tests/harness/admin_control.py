"""The verbs without a server behind them: scripted answers, and a record of what was asked.

Jobs move one step with every look at them, so that a test of progress needs no clock: a job of three steps has ended at
the third look.
"""

from base64 import b64decode, b64encode
from dataclasses import dataclass, field, replace
from typing import Any, Final

from forebay.core.errors import OrderRefused, PinRefused, SettingsError
from forebay.core.events import TierName
from forebay.core.pending_write import LEFT_TO_A_PERSON, PendingPage, PendingWrite, StuckWrite
from forebay.core.plan_progress import PlanList, PlanProgress
from forebay.core.recording_info import RecordingInfo
from forebay.datasets.data_set_stats import DataSetStats, EpochStats
from forebay.server.admin.control import Control
from forebay.server.admin.key_list import KeyList, KeyListEntry
from forebay.server.admin.readiness import Readiness
from forebay.server.admin.schema.admin_schema import (
    CacheEntry,
    CachePage,
    ConfigChanged,
    DecidedField,
    Document,
    Explanation,
    FailurePage,
    GrantedAccess,
    Job,
    JobList,
    MemberPlace,
    Purged,
    Resized,
    WarmFailure,
)
from forebay.server.admin.schema.data_set_schema import (
    AdviceList,
    AdviceSource,
    DataSetAdvice,
    DataSetList,
    HitOutlook,
)
from forebay.server.admin.schema.pack_request import PackRequest
from forebay.server.admin.schema.pending_schema import (
    NOT_STUCK,
    Flushed,
    PendingContent,
    PendingDiscarded,
    PendingRetried,
)
from forebay.server.admin.schema.pin_schema import PinList, PinRemoved, PinView
from forebay.server.admin.schema.plan_schema import PlanOrder, PlanSent
from forebay.server.admin.schema.recording_schema import (
    RecordingList,
    RecordingPart,
    RecordingRemoved,
    RecordingStored,
    ReplayOrder,
)
from forebay.server.admin.schema.stats_schema import (
    BudgetStats,
    FlightStats,
    JobStats,
    OriginStats,
    RequestStats,
    RuleReads,
    Stats,
    TierStats,
)
from forebay.server.admin.schema.warm_order import WarmOrder

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
STARTED: Final = 1_750_000_000.0
"""When everything here happened: 2025-06-15, 15:06:40 UTC."""


def sample_plan(plan_id: str = "5d1c2f") -> PlanProgress:
    return PlanProgress(
        id=plan_id,
        bucket="datasets",
        name="epoch-0",
        principal="trainer",
        state="running",
        sent_at=STARTED,
        ended_at=None,
        entries=4000,
        dropped=3,
        position=1204,
        read=1200,
        late=2,
        given_up=1,
        failed=0,
        fetched_blocks=1630,
        fetched_bytes=975 * MIB,
        useless_bytes=2 * MIB,
        lead_entries=430,
        lead_bytes=256 * MIB,
        lead_seconds=4.125,
        data_set="imagenet",
    )


def sample_write(number: int = 17, **fields: Any) -> PendingWrite:
    write = PendingWrite(
        id=f"5d1c2f90aa31-{number}",
        bucket="ckpts",
        key=f"run-7/step-{number}.pt",
        kind="put",
        state="waiting",
        size=3 * MIB,
        etag='"0123456789abcdef0123456789abcdef"',
        accepted_at=STARTED,
        attempts=0,
        reason="",
        waits_for="",
        parts=0,
        headers=(("Content-Type", "binary/octet-stream"),),
    )
    return replace(write, **fields)


def sample_stats() -> Stats:
    return Stats(
        version="0.1.0",
        uptime=273_720.0,
        workers=2,
        workers_alive=2,
        requests=RequestStats({"200": 1_204_410, "206": 30_100, "304": 120, "404": 41, "503": 3}),
        bytes_sent=4 * 1024 * GIB,
        bytes_received=12 * GIB,
        reads=(
            RuleReads("datasets/imagenet/**", 1_200_000, 600 * GIB, 3200 * GIB, 40 * GIB, 160 * GIB, 168 * GIB),
            RuleReads("default", 34_510, 0, 0, 0, 96 * GIB, 96 * GIB),
            RuleReads("checkpoints/**", 0, 0, 0, 0, 0, 0),
        ),
        tiers=(
            TierStats("memory", "serving", 4 * GIB, 3_480 * MIB, 3_480, 911),
            TierStats("ssd", "serving", 500 * GIB, 160 * GIB, 163_840, 40_113),
        ),
        flights=FlightStats(3, 12),
        jobs=JobStats(1),
        budget=BudgetStats(2 * GIB, 512 * MIB, 3),
        origin=OriginStats("https://s3.eu-west-1.amazonaws.com", "reachable", "closed", 180_000, 12, 14, 264 * GIB),
    )


def sample_data_sets() -> tuple[DataSetStats, ...]:
    return (
        DataSetStats(
            name="imagenet",
            eviction="epoch",
            quota=200 * GIB,
            objects=1_281_167,
            size=148 * GIB,
            memory=3 * GIB,
            ssd=71 * GIB,
            reads=3_500_000,
            sent=400 * GIB,
            hit_share=0.31,
            reads_per_second=5120.4,
            plan_lead=256 * MIB,
            epoch=EpochStats(3, 900_000, 104 * GIB, 0.499, 104 * GIB),
            last_epoch=EpochStats(2, 1_281_000, 148 * GIB, 0.5012, 148 * GIB),
        ),
        DataSetStats(
            name="ckpts/**",
            eviction="lru",
            quota=None,
            objects=12,
            size=3 * GIB,
            memory=None,
            ssd=None,
            reads=12,
            sent=3 * GIB,
            hit_share=0.0,
            reads_per_second=0.0,
            plan_lead=0,
            epoch=EpochStats(1, 12, 3 * GIB, 0.0, 3 * GIB),
            last_epoch=None,
        ),
    )


def sample_advice() -> tuple[DataSetAdvice, ...]:
    return (
        DataSetAdvice(
            "imagenet",
            size=148 * GIB,
            is_whole=True,
            current="lru",
            outlooks=(
                HitOutlook(0.5, 35 * GIB, 0.031, 37 * GIB, 0.25),
                HitOutlook(1.0, 70 * GIB, 0.135, 74 * GIB, 0.5),
                HitOutlook(2.0, 140 * GIB, 0.78, 148 * GIB, 1.0),
                HitOutlook(4.0, 280 * GIB, 1.0, 296 * GIB, 1.0),
            ),
            eviction="epoch",
            quota=None,
            factor=2.0,
            reasons=(
                "The set has 148 GiB, the tiers keep 70 GiB.",
                'Set eviction = "epoch": it hits 50 % of what is read again, 36 % more than lru.',
                "Tiers 2 times as large hit 100 %.",
            ),
        ),
        DataSetAdvice("ckpts/**", 3 * GIB, True, "lru", (), None, None, None, ("No advice yet.",)),
    )


@dataclass
class FakeControl:
    """What it answers is in its fields, for a test to set; `asked` is what it was asked, in order."""

    ready: Readiness = field(default_factory=Readiness)
    current_stats: Stats = field(default_factory=sample_stats)
    effective: Document = field(default_factory=lambda: {"server": {"listen": "127.0.0.1:9000"}})
    has_file: bool = True
    objects: list[CacheEntry] = field(default_factory=list)
    advised: tuple[DataSetAdvice, ...] = field(default_factory=sample_advice)
    sets: tuple[DataSetStats, ...] = field(default_factory=sample_data_sets)
    tiers: dict[TierName, int] = field(default_factory=lambda: {"memory": 4 * GIB})
    steps: int = 3
    """Into how many steps, and objects of 10 MiB, a job falls."""
    kept: int | None = None
    """How many objects of a job are cached at its end; None: those that did not fail."""
    capacity: int = 4 * GIB
    failing: tuple[WarmFailure, ...] = ()
    """Failures that the last step of a job has."""
    fails_with: Exception | None = None
    """Raised by every method, if set."""
    warning: str | None = None
    """Of every pack job."""
    calls: list[tuple[object, ...]] = field(default_factory=list)
    running: dict[str, Job] = field(default_factory=dict)
    recorded: dict[tuple[str, str], tuple[RecordingInfo, bytes]] = field(default_factory=dict)
    """Recordings, by bucket and name."""
    pinned: dict[tuple[str, str], PinView] = field(default_factory=dict)
    """Pins, by bucket and prefix."""
    lists: dict[str, list[KeyListEntry]] = field(default_factory=dict)
    survives: bool = False
    sent_plans: dict[str, PlanProgress] = field(default_factory=dict)
    pending: dict[str, PendingWrite] | None = field(default_factory=dict)
    """By id; None: there is no journal."""
    content: bytes = b"content"
    """Of every pending write."""
    damage: str = ""
    """Why it can't be read."""

    @property
    def verbs(self) -> Control:
        """All of them are its own."""
        return Control(
            state=self,
            config=self,
            jobs=self,
            cache=self,
            data_sets=self,
            pins=self,
            plans=self,
            recordings=self,
            writes=self,
        )

    def _note(self, *question: object) -> None:
        self.calls.append(question)
        if self.fails_with is not None:
            raise self.fails_with

    async def readiness(self) -> Readiness:
        self._note("readiness")
        return self.ready

    async def metrics(self) -> str:
        self._note("metrics")
        return "# TYPE forebay_up gauge\nforebay_up 1\n"

    async def stats(self) -> Stats:
        self._note("stats")
        return self.current_stats

    async def config(self) -> Document:
        self._note("config")
        return self.effective

    async def replace_config(self, toml: str) -> ConfigChanged:
        self._note("replace_config", toml)
        if "bad" in toml:
            raise SettingsError("memory.size", "bad", "a size such as 4GiB")
        return ConfigChanged(("memory.size", "rules"), ("server.listen",), ("it is much",))

    async def reload_config(self) -> ConfigChanged | None:
        self._note("reload_config")
        return ConfigChanged((), ()) if self.has_file else None

    async def start_job(self, order: WarmOrder) -> Job:
        self._note("start_job", order)
        if not set(order.lists) <= set(self.lists):
            raise OrderRefused("no_such_list", "A list is gone.")
        listed = len(order.keys) + sum(len(self.lists[each]) for each in order.lists)
        sources = (*([f"s3://{order.bucket}/{order.prefix}"] if order.prefix else []), *order.locations, *order.globs)
        job = Job(
            id=f"j{len(self.running) + 1}",
            bucket=order.bucket or "b",
            prefix=order.prefix,
            state="running",
            reason=None,
            concurrency=order.concurrency or 16,
            started_at=STARTED,
            ended_at=None,
            listed=listed,
            listing_ended=bool(listed),
            done=0,
            failed=0,
            bytes_listed=0,
            bytes_done=0,
            failures=(),
            check=order.check,
            if_fits=order.if_fits,
            sources=sources,
            listed_sources=len(sources),
            listed_keys=listed,
            survives=self.survives,
        )
        self.running[job.id] = job
        return job

    async def start_pack(self, order: PackRequest) -> Job:
        self._note("start_pack", order)
        job = await self.start_job(WarmOrder(order.bucket, order.prefix))
        assert job is not None
        self.running[job.id] = replace(job, action=order.action, warning=self.warning)
        return self.running[job.id]

    async def pins(self) -> PinList:
        self._note("pins")
        return PinList(tuple(self.pinned.values()), sum(pin.pinned for pin in self.pinned.values()), 375 * GIB)

    async def pin(self, bucket: str, prefix: str = "") -> PinView:
        self._note("pin", bucket, prefix)
        if prefix == "large/":
            raise PinRefused("s3://b/large/ has 400 GiB; pins may take 375 GiB of the SSD tier.")
        known = prefix != "unlisted/"
        pin = PinView(bucket, prefix, STARTED, 40 if known else None, 3 * GIB if known else None, 2 * GIB, not known)
        self.pinned[bucket, prefix] = pin
        return pin

    async def unpin(self, bucket: str, prefix: str = "") -> PinRemoved | None:
        self._note("unpin", bucket, prefix)
        found = self.pinned.pop((bucket, prefix), None)
        return PinRemoved(found) if found is not None else None

    async def plans(self) -> PlanList:
        self._note("plans")
        return PlanList(tuple(self.sent_plans.values()))

    async def send_plan(self, order: PlanOrder) -> PlanSent:
        self._note("send_plan", order)
        plan = self.sent_plans.get(order.name)
        return PlanSent(plan, "" if plan is not None else "Line 1: the line is too long.")

    async def plan(self, plan_id: str) -> PlanProgress | None:
        self._note("plan", plan_id)
        return self.sent_plans.get(plan_id)

    async def cancel_plan(self, plan_id: str) -> PlanProgress | None:
        self._note("cancel_plan", plan_id)
        plan = self.sent_plans.get(plan_id)
        if plan is not None and plan.ended_at is None:
            self.sent_plans[plan_id] = replace(plan, state="cancelled", ended_at=STARTED + 60)
        return self.sent_plans.get(plan_id)

    async def pending_writes(
        self, bucket: str = "", prefix: str = "", state: str = "", after: str = "", limit: int = 1000
    ) -> PendingPage | None:
        self._note("pending_writes", bucket, prefix, state, after, limit)
        if self.pending is None:
            return None
        found = [
            write
            for write in self.pending.values()
            if bucket in {"", write.bucket} and write.key.startswith(prefix) and state in {"", write.state}
        ]
        start = int(after or 0)
        return PendingPage(tuple(found[start : start + 2]), str(start + 2) if len(found) > start + 2 else None)

    async def flush_writes(self, bucket: str, prefix: str = "", wait: float = 0.0, before: str = "") -> Flushed | None:
        """One write of the prefix arrives each time, unless it is stuck, or waits for such a one."""
        self._note("flush", bucket, prefix, before)
        if self.pending is None:
            return None
        if bucket == "mistyped":
            return Flushed(0, "", problem="There is no bucket mistyped.")
        found = [each for each in self.pending.values() if each.bucket == bucket and each.key.startswith(prefix)]
        pending = len(found)
        stuck = [each for each in self.pending.values() if each.bucket == bucket and each.state in LEFT_TO_A_PERSON]
        moving = [each for each in found if each not in stuck and not (stuck and each.state == "waiting")]
        if moving:
            arrived = moving.pop(0)
            del self.pending[arrived.id]
            found.remove(arrived)
        named = tuple(StuckWrite(each.id, each.bucket, each.key, each.reason) for each in stuck)
        return Flushed(len(found), before or "1000", len(found) - len(moving), named, pending)

    async def pending_write(self, write_id: str) -> PendingWrite | None:
        self._note("pending_write", write_id)
        return (self.pending or {}).get(write_id)

    async def pending_content(self, write_id: str, offset: int = 0) -> PendingContent | None:
        self._note("pending_content", write_id, offset)
        if write_id not in (self.pending or {}):
            return None
        stop = offset + 3
        encoded = b64encode(self.content[offset:stop]).decode()
        return PendingContent(offset, encoded, stop if stop < len(self.content) else None, self.damage)

    async def retry_write(self, write_id: str) -> PendingRetried | None:
        self._note("retry_write", write_id)
        write = (self.pending or {}).get(write_id)
        return PendingRetried(write, "" if write.state == "stuck" else NOT_STUCK) if write is not None else None

    async def discard_write(self, write_id: str, bucket: str, key: str) -> PendingDiscarded | None:
        self._note("discard_write", write_id, bucket, key)
        write = (self.pending or {}).get(write_id)
        if write is None or (write.bucket, write.key) != (bucket, key):
            return None
        return PendingDiscarded(write, "" if write.state == "stuck" else NOT_STUCK)

    async def data_sets(self) -> DataSetList:
        self._note("data_sets")
        return DataSetList(self.sets)

    async def extend_list(self, list_id: str, entries: list[KeyListEntry]) -> KeyList | None:
        list_id = list_id or f"{len(self.lists):02x}"
        self.lists.setdefault(list_id, []).extend(entries)
        return KeyList(list_id, len(self.lists[list_id]))

    async def job_failures(self, job_id: str, after: int = 0, limit: int = 1000) -> FailurePage | None:
        self._note("job_failures", job_id, after, limit)
        page = self.failing[after : after + limit]
        return FailurePage(page, str(after + limit) if len(page) == limit else None) if job_id in self.running else None

    async def advice(self, source: AdviceSource = "reads") -> AdviceList:
        self._note("advice", source)
        return AdviceList(self.advised)

    async def jobs(self) -> JobList:
        self._note("jobs")
        return JobList(tuple(reversed(self.running.values())))

    async def job(self, job_id: str) -> Job | None:
        self._note("job", job_id)
        job = self.running.get(job_id)
        if job is not None and job.state == "running":
            self.running[job_id] = self._step(job)
        return self.running.get(job_id)

    async def cancel_job(self, job_id: str) -> Job | None:
        self._note("cancel_job", job_id)
        job = self.running.get(job_id)
        if job is not None and job.state == "running":
            self.running[job_id] = replace(job, state="cancelled", ended_at=STARTED + 60)
        return self.running.get(job_id)

    async def list_cached(self, bucket: str, prefix: str = "", after: str = "", limit: int = 1000) -> CachePage:
        self._note("cached", bucket, prefix, after, limit)
        found = [
            cached
            for cached in self.objects
            if cached.name.bucket == bucket and cached.name.key.startswith(prefix) and cached.name.key > after
        ]
        return CachePage(tuple(found[:limit]), found[limit - 1].name.key if len(found) > limit else None)

    async def explain(self, bucket: str, key: str, access_key: str = "") -> Explanation:
        self._note("explain", bucket, key, access_key)
        cached = next((entry for entry in self.objects if (entry.bucket, entry.key) == (bucket, key)), None)
        fields = (DecidedField("freshness", "60s", 0, "**"), DecidedField("block", "1MiB", None, None))
        access = (GrantedAccess("trainer", ("read",), (0,)),)
        fresh = None if cached is None else True
        endpoint, member = "https://s3.eu-west-1.amazonaws.com", MemberPlace("packed/0.tar", 512, 100)
        explained = Explanation(bucket, key, endpoint, fields, access, cached, False, fresh, None, "a hit")
        return explained if key != "member" else replace(explained, member=member)

    async def purge(self, bucket: str, prefix: str = "") -> Purged:
        self._note("purge", bucket, prefix)
        gone = [cached for cached in self.objects if cached.name.path.startswith(f"{bucket}/{prefix}")]
        self.objects = [cached for cached in self.objects if cached not in gone]
        return Purged(len(gone), sum(cached.cached for cached in gone))

    async def recordings(self, bucket: str = "") -> RecordingList:
        self._note("recordings", bucket)
        return RecordingList(tuple(each for each, _ in self.recorded.values() if bucket in {"", each.bucket}))

    async def recording_part(self, bucket: str, name: str, offset: int = 0) -> RecordingPart | None:
        self._note("recording_part", bucket, name, offset)
        if (bucket, name) not in self.recorded:
            return None
        recording, content = self.recorded[bucket, name]
        stop = offset + 10
        encoded = b64encode(content[offset:stop]).decode()
        return RecordingPart(recording, offset, encoded, stop if stop < len(content) else None)

    async def store_recording(self, bucket: str, name: str, content: str) -> RecordingStored:
        self._note("store_recording", bucket, name)
        if b64decode(content) == b"bad":
            return RecordingStored(None, "it is no recording (byte 0)")
        recording = sample_recording(bucket, name)
        self.recorded[bucket, name] = recording, b64decode(content)
        return RecordingStored(recording)

    async def save_recording(
        self, bucket: str, name: str, source: str = "", shared: bool = False
    ) -> RecordingStored | None:
        self._note("save_recording", bucket, name, source, shared)
        found = self.recorded.pop((bucket, source or "auto-1"), None)
        if found is None:
            return None
        saved = replace(found[0], name=name, state="saved", principal="" if shared else found[0].principal)
        self.recorded[bucket, name] = saved, found[1]
        return RecordingStored(saved)

    async def replay_recording(self, bucket: str, name: str, order: ReplayOrder) -> Job | None:
        self._note("replay_recording", bucket, name, order)
        if (bucket, name) not in self.recorded:
            return None
        return await self.start_job(WarmOrder(bucket, keys=("a",), rate=order.rate, concurrency=order.concurrency))

    async def remove_recording(self, bucket: str, name: str) -> RecordingRemoved | None:
        self._note("remove_recording", bucket, name)
        found = self.recorded.pop((bucket, name), None)
        return RecordingRemoved(found[0]) if found is not None else None

    async def resize(self, tier: TierName, size: str) -> Resized | None:
        self._note("resize", tier, size)
        if not size.endswith("GiB"):
            raise SettingsError(f"{tier}.size", size, "a size such as 4GiB")
        if tier not in self.tiers:
            return None
        before, self.tiers[tier] = self.tiers[tier], int(size.removesuffix("GiB")) * GIB
        after = self.tiers[tier]
        return Resized(tier, before, after, "there is no such memory" if after > 1000 * GIB else None)

    def _step(self, job: Job) -> Job:
        if self.steps == 0:
            return replace(job, state="failed", listing_ended=True, reason="no key begins with it", ended_at=STARTED)
        done, size = job.done + 1, self.steps * 10 * MIB
        moved = replace(
            job,
            listed=self.steps,
            listing_ended=True,
            bytes_listed=size,
            capacity=self.capacity,
            fits=size <= self.capacity,
            done=done,
            bytes_done=done * 10 * MIB,
            bytes_per_second=20.0 * MIB if done > 1 else None,
            seconds_left=(self.steps - done) / 2 if done > 1 else None,
        )
        if done < self.steps:
            return moved
        done -= len(self.failing)
        kept = done if self.kept is None else self.kept
        return replace(
            moved,
            state="done" if kept == self.steps else "failed",
            done=done,
            failed=len(self.failing),
            bytes_done=done * 10 * MIB,
            failures=self.failing,
            ended_at=STARTED + self.steps,
            kept=kept,
            bytes_per_second=None,
            seconds_left=None,
            bytes_kept=kept * 10 * MIB,
            bytes_in_memory=kept * 10 * MIB,
            bytes_on_ssd=MIB,
            not_kept="the rest did not fit" if kept < done else None,
        )


def sample_recording(bucket: str, name: str, state: str = "saved", principal: str = "") -> RecordingInfo:
    """A recording of 1.28 million reads."""
    size = 140 * GIB
    return RecordingInfo(
        bucket,
        name,
        state,
        principal,
        "imagenet",
        STARTED,
        STARTED + 600,
        None,
        "run",
        1,
        1_281_167,
        size,
        9 * MIB,
        9000,
    )


def cached_object(key: str, *, size: int = 10 * MIB, memory: int = 0, ssd: int = 10 * MIB) -> CacheEntry:
    """An object of bucket `b` as the cache has it."""
    return CacheEntry("b", key, size, '"abc"', memory, ssd, max(memory, ssd), STARTED)
