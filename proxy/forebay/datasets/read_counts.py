"""Read counts: a worker's own reads, counted by data set and sampled, and reported to the node's collector.

    read stream ──batch──> ReadCounts ──report──> DataSets          of this worker, if it is the collector
                                     └──RPC──> worker 0

All reads are counted where they are answered; single ones are reported only of the sample, as the collector's
thresholds say. So a read that is not in the sample costs a tenth of a microsecond. Reads under
no rule are passed over, and while there are no rules nothing subscribes to the stream at all.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from forebay.core.errors import ForebayError
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_log import KnownReads, ReadGroup, read_hash
from forebay.core.read_stream import ReadBatch, ReadStream
from forebay.datasets.data_set import NO_LIMITS, SetLimits
from forebay.datasets.data_sets import DataSets, decode_limits
from forebay.datasets.read_report import ReadTotals, SampledRead, SetReport, encode_reports
from forebay.peers.frames import Spawn
from forebay.peers.node_reads import COLLECTOR
from forebay.peers.owners import Peers
from forebay.policy.distinct_objects import DistinctSample
from forebay.policy.reuse_distance import HASH_BITS

_MASK: Final = (1 << HASH_BITS) - 1
_GOLDEN: Final = 0x9E37_79B9
"""Over 2^32 the golden ratio: the blocks of one object are spread evenly over all hashes."""

MAX_UNSENT: Final = 4096
"""Reads of the sample of one data set that wait for the collector; more are left out."""
SAMPLED_A_SECOND: Final = 1000.0
"""Reads of samples that a worker reports in a second on average: at 10 µs each, 1 % of a core. Beyond it sampling
rests, and goes on as if nothing had been read meanwhile. Only small, hot sets reach it, as all of their blocks are
sampled; a training job that reads a large set is far below."""
SAMPLED_AT_ONCE: Final = 20_000.0
"""Reads of samples in a row: more than two passes over the largest sample, else no block would be seen twice."""
MAX_LOGS: Final = 64
"""Logs of one data set of which it is remembered which objects were noted."""


class _SetCounts:
    """The reads of one data set that were not reported yet."""

    __slots__ = ("block", "hit", "limits", "noted", "objects", "reads", "report", "sent")

    def __init__(self, block: int) -> None:
        self.block = block
        self.limits = NO_LIMITS
        self.forget_objects()
        self.clear()

    def forget_objects(self) -> None:
        """Has all objects noted once more."""
        self.objects = DistinctSample()
        self.noted: dict[KnownReads, int] = {}
        """The number of noted objects of each log."""

    def clear(self) -> None:
        self.reads = self.sent = 0
        self.hit = 0.0
        self.report = SetReport()

    def add_whole(self, extents: list[int]) -> None:
        """Counts hits of whole objects (core.read_log.KnownReads.extents)."""
        sent = (sum(extents) - len(extents)) // 2
        self.reads += len(extents)
        self.sent += sent
        self.hit += sent

    def note_object(self, hashed: int, size: int) -> None:
        """Notes that an object exists, if it is news."""
        if hashed < self.limits.objects and self.objects.sizes.get(hashed) != size:
            self.objects.record(hashed, size)
            self.report.objects.append((hashed, size))

    def note_objects(self, known: KnownReads, salt: int) -> None:
        """Notes the objects of a log that were not noted before."""
        noted = self.noted.get(known, 0)
        if noted < len(known.keys):
            if len(self.noted) >= MAX_LOGS:
                self.noted.clear()
            for key, extent in zip(known.keys[noted:], known.extents[noted:], strict=True):
                self.note_object(read_hash(key, 0) ^ salt, extent >> 1)
            self.noted[known] = len(known.keys)

    def close_report(self) -> SetReport:
        """The report; counting begins anew."""
        report = self.report
        report.totals = ReadTotals(self.reads, self.sent, self.hit)
        self.clear()
        return report


class ReadCounts:
    """The counts of one worker. `block_of`: bytes of an object's blocks, by the rules in force."""

    def __init__(
        self,
        stream: ReadStream,
        data_sets: DataSets,
        peers: Peers,
        spawn: Spawn,
        block_of: Callable[[ObjectName], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._stream = stream
        self._data_sets = data_sets
        self._peers = peers
        self._spawn = spawn
        self._block_of = block_of
        self._monotonic = monotonic
        self._counted_at = monotonic()
        self._allowance = SAMPLED_AT_ONCE
        self._is_resting = False
        """Whether the allowance was used up, and has not grown back."""
        self._sets: dict[str, _SetCounts] = {}
        self._names = frozenset[str]()
        self._unsubscribe: Callable[[], None] | None = None
        self._is_sending = False

    def apply_rules(self, names: frozenset[str]) -> None:
        """Counts reads from now on if there are data sets with these names, and stops if there are none. Blocks are
        taken from the rules anew."""
        self._names = names
        self._data_sets.keep(names)
        for name, counts in self._sets.items():
            if name in names:
                counts.block = 0
        self._sets = {name: counts for name, counts in self._sets.items() if name in names}
        if names and self._unsubscribe is None:
            self._unsubscribe = self._stream.subscribe(self._count, is_urgent=False)
        elif not names and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _count(self, batch: ReadBatch) -> None:
        self._grow_allowance()
        is_sampling = not self._is_resting
        for group in batch.groups:
            rule, bucket = group.context.rule, group.context.bucket
            if rule not in self._names:  # under no rule, or under one that is gone
                continue
            counts, salt = self._set(group), read_hash(bucket, 0)
            for run in group.runs():
                if isinstance(run, ObjectRead):
                    self._count_read(counts, run, salt, is_sampling=is_sampling)
                elif run.known.largest <= counts.block:
                    self._count_known(counts, run, salt, is_sampling=is_sampling)
                else:
                    for read in run.reads():
                        self._count_read(counts, read, salt, is_sampling=is_sampling)
        self._report()

    def _count_read(self, counts: _SetCounts, read: ObjectRead, salt: int, *, is_sampling: bool) -> None:
        (start, stop), size = read.span, read.size
        first, sent = read_hash(read.name.key, 0) ^ salt, stop - start
        counts.note_object(first, size)
        if is_sampling:
            if size > counts.block:
                self._sample_blocks(counts, first, start, stop, size)
            elif first < counts.limits.units:
                self._sample(counts, first, size, sent)
        counts.reads += 1
        counts.sent += sent
        counts.hit += sent * read.cached

    def _count_known(self, counts: _SetCounts, group: ReadGroup, salt: int, *, is_sampling: bool) -> None:
        """Counts hits of whole objects of one block at most. Only sampled reads take a step of Python each."""
        counts.note_objects(group.known, salt)
        extents = group.extents
        counted = 0
        threshold = counts.limits.units
        if is_sampling and threshold:
            hashes = group.hashes
            for position in [each for each, hashed in enumerate(hashes) if hashed ^ salt < threshold]:
                counts.add_whole(extents[counted:position])
                counted, size = position, extents[position] >> 1
                self._sample(counts, hashes[position] ^ salt, size, size)
        counts.add_whole(extents[counted:] if counted else extents)

    def _grow_allowance(self) -> None:
        now = self._monotonic()
        self._allowance = min(SAMPLED_AT_ONCE, self._allowance + (now - self._counted_at) * SAMPLED_A_SECOND)
        self._counted_at = now
        if self._is_resting and self._allowance >= SAMPLED_AT_ONCE:
            self._is_resting = False
            for counts in self._sets.values():
                counts.report.is_cut = True

    def _set(self, group: ReadGroup) -> _SetCounts:
        context, keys = group.context, group.known.keys
        counts = self._sets.setdefault(context.rule, _SetCounts(0))
        if not counts.block:
            key = keys[0] if keys else group.transient[0].name.key
            counts.block = self._block_of(ObjectName(context.bucket, key))
        return counts

    def _sample_blocks(self, counts: _SetCounts, first: int, start: int, stop: int, size: int) -> None:
        block, threshold = counts.block, counts.limits.units
        for number in range(start // block, -(-stop // block)):
            unit = first + number * _GOLDEN & _MASK
            if unit < threshold:
                begin = number * block
                end = min(begin + block, size)
                self._sample(counts, unit, end - begin, min(stop, end) - max(start, begin))

    def _sample(self, counts: _SetCounts, unit: int, size: int, sent: int) -> None:
        report = counts.report
        if len(report.sampled) >= MAX_UNSENT:
            report.is_cut = True
        else:
            before = ReadTotals(counts.reads, counts.sent, counts.hit)
            report.sampled.append(SampledRead(unit, size, sent, before))
            self._allowance -= 1
            self._is_resting = self._allowance <= 0

    def _report(self) -> None:
        if self._peers.number == COLLECTOR:
            self._learn(self._data_sets.receive(self._close_reports()))
        elif not self._is_sending:
            self._is_sending = True
            self._spawn(self._send(), "report reads of data sets")

    def _close_reports(self) -> dict[str, SetReport]:
        return {name: counts.close_report() for name, counts in self._sets.items() if counts.reads}

    async def _send(self) -> None:
        """Sends reports until nothing is left to report. Reads that arrive meanwhile are in the next report."""
        try:
            while reports := self._close_reports():
                with suppress(ForebayError):  # the collector has gone: its successor knows what comes later
                    request = {"kind": "data_set_reads", **encode_reports(reports)}
                    self._learn(decode_limits(await self._peers.others[COLLECTOR].call(request)))
        finally:
            self._is_sending = False

    def _learn(self, limits: dict[str, SetLimits]) -> None:
        for name, each in limits.items():
            if (counts := self._sets.get(name)) is not None:
                if each.objects > counts.limits.objects:  # a collector that was restarted, and knows no object
                    counts.forget_objects()
                counts.limits = each
