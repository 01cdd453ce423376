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
from forebay.policy.reuse_distance import unit_hash

MAX_UNSENT: Final = 4096
"""Reads of the sample of one data set that wait for the collector; more are left out."""
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
    """The counts of one worker. `block_of`: bytes of a block of an object, by the rules in force."""

    def __init__(
        self,
        stream: ReadStream,
        data_sets: DataSets,
        peers: Peers,
        spawn: Spawn,
        block_of: Callable[[ObjectName], int],
    ) -> None:
        self._stream = stream
        self._data_sets = data_sets
        self._peers = peers
        self._spawn = spawn
        self._block_of = block_of
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
        for name, span, size, _, rule, _, cached in batch.reads:
            counts = self._sets.get(rule)
            if counts is None or not counts.block:
                if rule not in self._names:  # under no rule, or under one that is gone
                    continue
                counts = self._known_set(rule, name)
            start, stop = span
            sent = stop - start
            limits = counts.limits
            key = zlib.crc32(name.key.encode("utf-8", "surrogatepass"), self._bucket(name.bucket)) << 32
            first = unit_hash(key)
            if first < limits.objects and counts.objects.record(first, size):
                counts.report.objects.append((first, size))
            if size <= counts.block:
                if first < limits.units:
                    self._sample(counts, first, size, sent)
            else:
                self._sample_blocks(counts, key, start, stop, size)
            counts.reads += 1
            counts.sent += sent
            counts.hit += sent * cached
        self._report()

    def _known_set(self, rule: str, name: ObjectName) -> _SetCounts:
        block = self._block_of(name)
        counts = self._sets.setdefault(rule, _SetCounts(block))
        counts.block = block
        return counts

    def _bucket(self, bucket: str) -> int:
        known = self._buckets.get(bucket)
        if known is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._buckets.clear()
            known = self._buckets[bucket] = zlib.crc32(bucket.encode("utf-8", "surrogatepass"))
        return known

    def _sample_blocks(self, counts: _SetCounts, key: int, start: int, stop: int, size: int) -> None:
        block, threshold = counts.block, counts.limits.units
        for number in range(start // block, -(-stop // block)):
            unit = unit_hash(key + number)
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
