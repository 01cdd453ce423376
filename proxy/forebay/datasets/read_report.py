"""Read reports: a worker's counts and samples of the reads under its rules, for the node's collector.

Counts of all reads, and of a sample of them each single one, so that the collector sees the passes over a data set and
the distances between reads of the same block, whichever workers answered them. They are sent as documents; reports to a
collector that is down are lost.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from forebay.peers.frames import Document


class ReadTotals(NamedTuple):
    """Reads, counted. Sizes are bytes."""

    reads: int = 0
    sent: int = 0
    hit: float = 0.0
    """The bytes sent that were in a tier."""

    def plus(self, other: "ReadTotals") -> "ReadTotals":
        """The sum."""
        return ReadTotals(self.reads + other.reads, self.sent + other.sent, self.hit + other.hit)

    def minus(self, other: "ReadTotals") -> "ReadTotals":
        """The difference."""
        return ReadTotals(self.reads - other.reads, self.sent - other.sent, self.hit - other.hit)

    @property
    def hit_share(self) -> float | None:
        """The share of the bytes sent that were in a tier; None: nothing was sent."""
        return self.hit / self.sent if self.sent else None


class SampledRead(NamedTuple):
    """A read of one block of the sample."""

    unit: int
    """The block, by its hash."""
    size: int
    """Bytes of the block."""
    sent: int
    """Bytes of it that were read."""
    before: ReadTotals
    """The counts of the same report before this read."""


@dataclass(slots=True)
class SetReport:
    """The reads of one data set since the report before. `objects`: hashes and sizes of objects that were not reported
    before, of a sample."""

    totals: ReadTotals = field(default_factory=ReadTotals)
    sampled: list[SampledRead] = field(default_factory=list)
    objects: list[tuple[int, int]] = field(default_factory=list)
    is_cut: bool = False
    """Whether reads of the sample are missing."""


def encode_reports(reports: dict[str, SetReport]) -> Document:
    """Returns reports as a document."""
    return {
        "sets": {
            name: [
                list(report.totals),
                [[read.unit, read.size, read.sent, *read.before] for read in report.sampled],
                report.objects,
                report.is_cut,
            ]
            for name, report in reports.items()
        }
    }


def decode_reports(document: Document) -> dict[str, SetReport]:
    """Returns the reports of a document. Raises KeyError, TypeError, ValueError, IndexError, AttributeError."""
    return {
        str(name): SetReport(
            _totals(totals),
            [SampledRead(int(unit), int(size), int(sent), _totals(before)) for unit, size, sent, *before in sampled],
            [(int(hashed), int(size)) for hashed, size in objects],
            bool(is_cut),
        )
        for name, (totals, sampled, objects, is_cut) in document["sets"].items()
    }


def _totals(numbers: list[float]) -> ReadTotals:
    reads, sent, hit = numbers
    return ReadTotals(int(reads), int(sent), float(hit))
