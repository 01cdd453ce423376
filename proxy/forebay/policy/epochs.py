"""Epochs: finds the passes over a data set in the reads of all its readers, for statistics, by blocks that repeat.

A job reads each unit (a block) once an epoch, in an order that is not known. So within a pass units are new, and when
the next pass begins they repeat, one after the other. For each of the latest WINDOW reads the detector knows whether
its unit had been read in this pass; when REPEATED of them had, a new pass has begun, at the first repetition in the
window:

    pass 1                         pass 2
    new new new new new new new  | again again again again ...  <- noticed here
                                 ^ began here

- *A unit read again at once* says nothing: ranges of one block, two loaders side by side. A unit among the latest
  WINDOW is passed over.
- *Several jobs at once*, each at another place: each repeats what another one has read. A pass ends when nine of ten
  reads are repetitions, so when they have read nearly all of it together: passes are shorter than any job's epoch, and
  never longer.
- *Several data sets under one rule*: small ones repeat while a large one is read; the pass is that of the large one.
- *A set that is read by chance* (with replacement): a pass is what it takes to see nine tenths of it.

The units are a sample of at most MAX_UNITS, by a threshold on their hash (forebay.policy.reuse_distance). A read of a
unit that is not in it costs one comparison, others less than 1 µs. Decision 0041.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from forebay.policy.reuse_distance import HASH_BITS

MAX_UNITS: Final = 512
WINDOW: Final = 64
"""The longest window, in reads of the sample. In a set of few units it is an eighth of them."""
MIN_WINDOW: Final = 4
REPEATED: Final = 0.9
"""The share of the window that has to be repetitions."""

Mark = TypeVar("Mark")


@dataclass(slots=True)
class _Unit:
    """A unit of the sample."""

    size: int = 0
    read_in: int = 0
    """The number of the pass that it was last read in."""
    read_at: int = 0
    """The number of reads that had been noted by then."""


class Coverage(NamedTuple):
    """Distinct units that a pass has read, and their bytes, estimated from the sample."""

    units: int
    size: int


class _Noted(NamedTuple, Generic[Mark]):
    """A read in the window."""

    unit: int
    is_repetition: bool
    mark: Mark


class EpochDetector(Generic[Mark]):
    """Finds the passes in one stream of reads. A mark is the caller's: where in its own counts a read was."""

    def __init__(self) -> None:
        self._threshold = 1 << HASH_BITS
        self._units: dict[int, _Unit] = {}
        self._window: deque[_Noted[Mark]] = deque()
        self._repetitions = 0
        """The number of repetitions in the window."""
        self._read = 0
        """Distinct units of the sample that were read in this pass, and their bytes."""
        self._read_size = 0
        self._noted = 0
        """Reads noted in the window so far."""
        self.epoch = 1
        """The number of the current pass."""
        self.last: Coverage | None = None
        """The coverage of the pass before this one; None in the first."""

    def __repr__(self) -> str:
        return f"<EpochDetector epoch {self.epoch}, {self._read} of {len(self)} units>"

    def __len__(self) -> int:
        """The units of the sample."""
        return len(self._units)

    @property
    def threshold(self) -> int:
        """Units whose hash is not below this are not in the sample; `record` need not be called for them."""
        return self._threshold

    @property
    def current(self) -> Coverage:
        """The coverage of this pass so far."""
        return self._coverage(self._read, self._read_size)

    def record(self, unit: int, size: int, mark: Mark) -> Mark | None:
        """Records a read of a unit, by its hash (HASH_BITS bits). Returns the mark of the read that a new pass began
        with, when that is noticed; else None. `size`: of the whole unit, as far as it is known."""
        if unit >= self._threshold:
            return None
        known = self._units.get(unit)
        if known is None:
            known = self._units[unit] = _Unit()
        elif self._noted - known.read_at < len(self._window):
            known.read_at = self._noted
            return None
        is_repetition = known.read_in == self.epoch
        if not is_repetition:
            known.read_in = self.epoch
            self._read += 1
            self._read_size += max(size, known.size)
        elif size > known.size:
            self._read_size += size - known.size
        known.size = max(size, known.size)
        self._noted += 1
        known.read_at = self._noted
        self._window.append(_Noted(unit, is_repetition, mark))
        self._repetitions += is_repetition
        limit = min(WINDOW, max(MIN_WINDOW, len(self._units) // 8))
        while len(self._window) > limit:
            self._repetitions -= self._window.popleft().is_repetition
        if len(self._units) > MAX_UNITS:
            self._shrink()
        if len(self._window) >= limit and self._repetitions >= REPEATED * limit:
            return self._begin_epoch()
        return None

    def _begin_epoch(self) -> Mark:
        """Begins a new pass with the repetitions in the window."""
        self.last = self._coverage(self._read, self._read_size)
        self.epoch += 1
        repeated = [noted for noted in self._window if noted.is_repetition]
        self._count_as_read(noted.unit for noted in repeated)
        self._window = deque(noted._replace(is_repetition=False) for noted in self._window)
        self._repetitions = 0
        return repeated[0].mark

    def _count_as_read(self, units: Iterable[int]) -> None:
        self._read = self._read_size = 0
        for unit in units:
            known = self._units[unit]
            known.read_in = self.epoch
            self._read += 1
            self._read_size += known.size

    def _shrink(self) -> None:
        """Drops units that were read neither in this pass nor in the one before, as they may be gone from the set.
        Halves the threshold if these are few."""
        recent = self.epoch - 1
        if sum(known.read_in >= recent for known in self._units.values()) > MAX_UNITS // 2:
            self._threshold //= 2
        self._units = {
            unit: known for unit, known in self._units.items() if unit < self._threshold and known.read_in >= recent
        }
        self._window = deque(noted for noted in self._window if noted.unit in self._units)
        self._repetitions = sum(noted.is_repetition for noted in self._window)
        self._count_as_read([unit for unit, known in self._units.items() if known.read_in == self.epoch])

    def _coverage(self, units: int, size: int) -> Coverage:
        scale = (1 << HASH_BITS) / self._threshold
        return Coverage(round(units * scale), round(size * scale))
