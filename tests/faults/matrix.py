"""The matrix: which operation meets which fault, and what of it nobody can know.

cells = faults x operations x timings, without those that make no sense, for a reason that stands here
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from faults.origin_faults import FAULTS, Fault
from faults.read_operations import READS, Operation
from faults.write_operations import WRITES

OPERATIONS: Final = (*READS, *WRITES)


@dataclass(frozen=True, slots=True)
class Timing:
    """Which of the origin's answers in a cell are spoilt: so many are skipped, so many hit (None: all)."""

    skip: int = 0
    times: int | None = None

    @property
    def title(self) -> str:
        counted = "all" if self.times is None else f"{self.times}"
        return counted if not self.skip else f"{counted} after {self.skip}"


LASTING: Final = Timing()
ONCE: Final = Timing(0, 1)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where cells run."""

    origin: Literal["s3", "oss"] = "s3"
    ssd: bool = False
    fast_lane: bool = True

    def __str__(self) -> str:
        return f"{self.origin}, {'SSD' if self.ssd else 'memory'}, {'both lanes' if self.fast_lane else 'full lane'}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    fault: Fault
    operation: Operation
    timing: Timing
    unknowable: str = ""
    """Why the answer under the fault can't be known to be wrong, nor the next read by the rule. From the first
    revalidation on, everything has to be right; `believed`: from the next purge on."""
    believed: bool = False

    @property
    def title(self) -> str:
        return f"{self.fault.name} | {self.operation.name} | {self.timing.title}"


@dataclass(frozen=True, slots=True)
class Remark:
    """What is to be said of some cells."""

    faults: frozenset[str]
    """Names of faults, or of families."""
    applies: Callable[[Operation], bool]
    reason: str
    believed: bool = False
    """See `Cell`."""
    repeated: bool = False
    """Whether that is so only where the fault hits several requests."""

    def covers(self, fault: Fault, operation: Operation, timing: Timing) -> bool:
        if self.repeated and timing.times == 1:
            return False
        return not self.faults.isdisjoint({fault.name, fault.family}) and self.applies(operation)


def _is_object_read(operation: Operation) -> bool:
    """Whether the answer is an object's bytes, or its head."""
    return operation.effect == "read" and operation.is_of_object


def _is_head(operation: Operation) -> bool:
    return operation.name.startswith("HEAD")


def _is_named(*names: str) -> Callable[[Operation], bool]:
    return lambda operation: operation.name in names


_OTHER_SIZES: Final = frozenset({"total smaller", "total larger", "shorter object"})

SENSELESS: Final[tuple[Remark, ...]] = (
    Remark(
        frozenset({"heads", "framing", "bodies", "ranges", "metadata", "documents", "refusals"}),
        lambda operation: not operation.asks_origin,
        "a hit does not ask the origin: its cells are those of the connections",
    ),
    Remark(
        frozenset({
            "dropped before the body", "reset before the body", "200 before the body", "403 before the body",
            "503 before the body",
        }),
        lambda operation: not operation.sends_body,
        "the request has no body",
    ),
    Remark(frozenset({"HEAD with a body"}), lambda operation: not _is_head(operation), "no HEAD is sent"),
    Remark(frozenset({"ranges"}), lambda operation: not _is_object_read(operation), "the request has no range"),
    Remark(frozenset({"documents"}), _is_object_read, "an object may be any document"),
    Remark(
        frozenset({"metadata"}),
        lambda operation: not _is_object_read(operation) and not operation.answers_etag,
        "the answer is of no object",
    ),
    Remark(
        frozenset({"bodies"}),
        lambda operation: operation.answers_nothing,
        "the answer has no body",
    ),
)  # fmt: skip
"""Cells that are left out."""

UNKNOWABLE: Final[tuple[Remark, ...]] = (
    Remark(
        frozenset({"another ETag"}),
        lambda _operation: True,
        "all that the origin says agrees with itself",
    ),
    Remark(
        _OTHER_SIZES,
        lambda operation: not operation.is_known,
        "all that the origin says of a version that nobody knows agrees with itself",
        believed=True,
    ),
    Remark(
        _OTHER_SIZES,
        lambda operation: operation.is_known,
        "the origin contradicts what it has said before, and goes on to say the same",
        believed=True,
        repeated=True,
    ),
    Remark(
        frozenset({"empty 200"}),
        lambda operation: not operation.is_known,
        "a version that nobody knows may be empty",
    ),
    Remark(
        frozenset({"empty 200"}),
        lambda operation: operation.is_known,
        "the origin goes on to contradict what it has said before",
        repeated=True,
    ),
    Remark(
        frozenset({"wrong checksums"}),
        lambda operation: operation.effect == "read",
        "a checksum that the origin has sent is compared at the end of a read, which is broken off",
    ),
    Remark(
        frozenset({"too long a length", "too short a length", "206 shorter than it says"}),
        _is_head,
        "the length in the answer to a HEAD has no body to be compared with",
    ),
    Remark(
        frozenset({"too short a length", "no length, and cut"}),
        lambda operation: operation.passes_on,
        "the end of an answer that is passed on is where the origin says",
    ),
    Remark(
        frozenset({"206 shorter than it says"}),
        _is_named("GET not accelerated"),
        "the end of a whole answer that is passed on is where the origin says",
    ),
    Remark(
        frozenset({"compressed", "compressed, and cut"}),
        lambda operation: operation.effect == "read",
        "the answer is passed on, and says that it is coded",
    ),
    Remark(
        frozenset({"304 unasked", "304 of another", "200 with an error", "another document", "200 before the body"}),
        lambda operation: operation.effect == "write",
        "the origin says that it is done",
    ),
    Remark(
        frozenset({"another document"}),
        lambda operation: operation.effect == "read",
        "the answer is passed on, and says what it is",
    ),
    Remark(
        frozenset({"weak ETag"}),
        _is_named("OSS complete upload"),
        "the origin refuses, in its own words, the ETag that it gave before",
    ),
)
"""Cells whose answer under the fault is not judged."""


def cells(
    origin: Literal["s3", "oss"] = "s3",
    timings: Sequence[Timing] = (LASTING,),
    faults: Sequence[Fault] = FAULTS,
    operations: Sequence[Operation] = OPERATIONS,
) -> Iterator[Cell]:
    """The cells that make sense."""
    for fault in faults:
        for operation in operations:
            for timing in timings:
                if origin in operation.origins and not _covering(SENSELESS, fault, operation, timing):
                    yield cell_of(fault, operation, timing)


def cell_of(fault: Fault, operation: Operation, timing: Timing) -> Cell:
    """The cell, with what is to be said of it."""
    remarks = _covering(UNKNOWABLE, fault, operation, timing)
    unknowable = remarks[0].reason if remarks else ""
    return Cell(fault, operation, timing, unknowable, any(remark.believed for remark in remarks))


def _covering(remarks: Sequence[Remark], fault: Fault, operation: Operation, timing: Timing) -> list[Remark]:
    return [remark for remark in remarks if remark.covers(fault, operation, timing)]
