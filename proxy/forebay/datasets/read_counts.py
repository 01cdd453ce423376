"""Read counts: a worker's own reads, counted by data set and sampled, and reported to the node's collector.

    read stream ──batch──> ReadCounts ──report──> DataSets          of this worker, if it is the collector
                                     └──RPC──> worker 0

All reads are counted where they are answered; single ones are reported only of the sample, as the collector's
thresholds say. So a read costs less than a microsecond, and with several workers a fraction of that more. Reads under
no rule are passed over, and while there are no rules nothing subscribes to the stream at all.
"""

import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from forebay.core.errors import ForebayError
from forebay.core.names import ObjectName
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
_MIX: Final = 0x9E37_79B1
"""Odd, so that no two checksums become one. It carries their differences to the top, where thresholds compare."""
_GOLDEN: Final = 0x9E37_79B9
"""Over 2^32 the golden ratio: the blocks of one object are spread evenly over all hashes."""

MAX_UNSENT: Final = 4096
"""Reads of the sample of one data set that wait for the collector; more are left out."""
SAMPLED_A_SECOND: Final = 1000.0
"""Reads of samples that a worker reports in a second on average: at 10 µs each, 1 % of a core. Beyond it sampling
rests, and goes on as if nothing had been read meanwhile. Only small, hot sets reach it, as all of their blocks are
sampled; a training job that reads a large set is far below."""
SAMPLED_AT_ONCE: Final = 20_000.0
"""As many in a row: more than two passes over the largest sample, else no block would be seen twice."""
MAX_BUCKETS: Final = 1024
"""Buckets whose checksum is remembered."""


class _SetCounts:
    """The reads of one data set that were not reported yet."""

    __slots__ = ("block", "hit", "limits", "objects", "reads", "report", "sent")

    def __init__(self, block: int) -> None:
        self.block = block
        self.limits = NO_LIMITS
        self.objects = DistinctSample()
        self.clear()

    def clear(self) -> None:
        self.reads = self.sent = 0
        self.hit = 0.0
        self.report = SetReport()

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
        self._buckets: dict[str, int] = {}
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
            self._unsubscribe = self._stream.subscribe(self._count)
        elif not names and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _count(self, batch: ReadBatch) -> None:
        self._grow_allowance()
        sets, buckets, crc32, is_sampling = self._sets, self._buckets, zlib.crc32, not self._is_resting
        for (bucket, key), (start, stop), size, _, rule, _, cached, _ in batch.reads:
            counts = sets.get(rule)
            if counts is None or not counts.block:
                if rule not in self._names:  # under no rule, or under one that is gone
                    continue
                counts = self._known_set(rule, ObjectName(bucket, key))
            if bucket not in buckets:
                self._remember_bucket(bucket)
            limits = counts.limits
            first = crc32(key.encode("utf-8", "surrogatepass"), buckets[bucket]) * _MIX & _MASK
            if first < limits.objects and counts.objects.sizes.get(first) != size:
                counts.objects.record(first, size)
                counts.report.objects.append((first, size))
            sent = stop - start
            if is_sampling:
                if size > counts.block:
                    self._sample_blocks(counts, first, start, stop, size)
                elif first < limits.units:
                    self._sample(counts, first, size, sent)
            counts.reads += 1
            counts.sent += sent
            counts.hit += sent * cached
        self._report()

    def _grow_allowance(self) -> None:
        now = self._monotonic()
        self._allowance = min(SAMPLED_AT_ONCE, self._allowance + (now - self._counted_at) * SAMPLED_A_SECOND)
        self._counted_at = now
        if self._is_resting and self._allowance >= SAMPLED_AT_ONCE:
            self._is_resting = False
            for counts in self._sets.values():
                counts.report.is_cut = True

    def _known_set(self, rule: str, name: ObjectName) -> _SetCounts:
        block = self._block_of(name)
        counts = self._sets.setdefault(rule, _SetCounts(block))
        counts.block = block
        return counts

    def _remember_bucket(self, bucket: str) -> None:
        if len(self._buckets) >= MAX_BUCKETS:
            self._buckets.clear()
        self._buckets[bucket] = zlib.crc32(bucket.encode("utf-8", "surrogatepass"))

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
        """Reports as long as there is something to report: what comes meanwhile goes into the next report."""
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
                    counts.objects = DistinctSample()
                counts.limits = each
