"""The pins of the SSD tier: which blocks get a label that reclaim leaves alone, within the quota.

    event loop        a block comes ──> its pin has room? ──> the label of the pin, else that of its pool
    writer's thread   pins have changed ──> blocks that are in other segments are moved (pin_gatherer.py)
    reclaim           a segment goes ──> its pinned blocks are moved first (reclaim.py)

Each pin has segments of its own, so its bytes are those of its segments, and nothing is rewritten when a prefix is
unpinned: a label without a pin is a plain one, and its segments go in their turn, by age.

The id of a pin is the start of the address of its prefix, as if that were a key: an origin that takes over a bucket
(directory_format.py) finds no pinned bytes of the one before, and those are no longer pinned.

`pins`, `label_for` and `is_over_quota` belong to the event loop, all else to the writer's thread. State that both use
is replaced as a whole.
"""

from dataclasses import dataclass
from typing import Final

from forebay.core.names import ObjectName
from forebay.policy.pins import NO_PINS, Pin, PinSet
from forebay.storage.ssd.segments.addressing import Addressing
from forebay.storage.ssd.segments.segment_label import PINNED_BAND, POOL_ID, SegmentLabel
from forebay.storage.ssd.segments.space_accounting import SpaceAccounting

NEAR_SHARE: Final = 16
"""Below one in so many bytes of the quota, the sizes of segments are read again before each batch: others may write."""


@dataclass(frozen=True, slots=True)
class _PinView:
    """The pins, and their labels."""

    pins: PinSet
    labels: dict[Pin, SegmentLabel]
    current: frozenset[SegmentLabel]


class SsdPins:
    """The pins of one directory."""

    def __init__(self, addressing: Addressing, space: SpaceAccounting, pins: PinSet = NO_PINS) -> None:
        self._addressing = addressing
        self._space = space
        self._used = 0
        self._view = self._view_of(pins)
        self._refused: dict[Pin, int] = {}
        """The pins of which a block had no room, and the bytes of all pins then."""
        self.version = 0
        """Grows with each change of the pins."""

    # For the event loop

    @property
    def pins(self) -> PinSet:
        """All pins."""
        return self._view.pins

    def use(self, pins: PinSet) -> None:
        """Replaces all pins."""
        self._view = self._view_of(pins)
        self._refused = {}
        self.version += 1

    def label_for(self, name: ObjectName, size: int) -> SegmentLabel | None:
        """Returns the label of a pinned block of `size` bytes; None: no pin covers it, or there is no room for it."""
        view = self._view
        pin = view.pins.find(name)
        if pin is None:
            return None
        if self._used + size > self.quota:
            self._refuse(pin)
            return None
        return view.labels[pin]

    def used_by(self) -> dict[Pin, int]:
        """Returns the bytes of each pin."""
        view, live = self._view, self._space.live
        return {pin: live[label] for pin, label in view.labels.items()}

    def is_over_quota(self, pin: Pin) -> bool:
        """Returns whether blocks of a pin are kept as others are, because there was no room for them."""
        return pin in self._refused

    @property
    def quota(self) -> int:
        """Bytes that pinned blocks may take: reclaim needs some segments beside them."""
        space = self._space
        return min(self._view.pins.quota_of(space.capacity), max(0, space.lasting_capacity - 2 * space.segment_size))

    @property
    def used(self) -> int:
        """Bytes that pinned blocks take, as last measured."""
        return self._used

    # For the writer's thread

    def measure(self) -> None:
        """Takes the bytes from the space accounting."""
        self._used = sum(self.used_by().values())

    def is_current(self, label: SegmentLabel) -> bool:
        """Returns whether a label is that of a pin."""
        return label in self._view.current

    @property
    def is_empty(self) -> bool:
        """Whether nothing is pinned."""
        return not self._view.labels

    @property
    def is_near_quota(self) -> bool:
        """Whether the pins have little room left."""
        return self._used * NEAR_SHARE >= self.quota * (NEAR_SHARE - 1)

    @property
    def is_exceeded(self) -> bool:
        """Whether pinned blocks take more than they may: the tier was made smaller, or others fill the disk."""
        return self._used > self.quota

    @property
    def is_over_share(self) -> bool:
        """Whether pinned blocks take more than their quota of the capacity. Free space of the disk does not matter."""
        return self._used > self._view.pins.quota_of(self._space.capacity)

    @property
    def has_room_again(self) -> bool:
        """Whether there is room for blocks that had none."""
        refused = self._refused
        return bool(refused) and self._used + self.quota // NEAR_SHARE < min(refused.values(), default=0)

    def label_of(self, name: ObjectName) -> SegmentLabel | None:
        """Returns the label of an object's blocks; None: no pin covers it."""
        view = self._view
        pin = view.pins.find(name)
        return None if pin is None else view.labels[pin]

    def room_for(self, label: SegmentLabel, size: int, planned: int) -> bool:
        """Returns whether there is room for a block of a pin. `planned`: bytes that were granted since `measure`."""
        if self._used + planned + size <= self.quota:
            return True
        for pin in (pin for pin, its in self._view.labels.items() if its == label):
            self._refuse(pin)
        return False

    def forget_refusals(self) -> None:
        """Forgets which pins had no room: all their blocks are about to be checked again."""
        self._refused = {}

    def _refuse(self, pin: Pin) -> None:
        self._refused.setdefault(pin, self._used)

    def _view_of(self, pins: PinSet) -> _PinView:
        labels = {
            pin: SegmentLabel(
                self._addressing.object_address(ObjectName(pin.bucket, pin.prefix))[:POOL_ID], PINNED_BAND
            )
            for pin in pins
        }
        return _PinView(pins, labels, frozenset(labels.values()))
