"""Pins: prefixes whose objects stay on the SSD, whatever else is read.

An operator pins a prefix, which fetches nothing. A block of a pinned object that is written to the SSD stays there
until its version is replaced, the object is deleted or purged, or the prefix is unpinned. A pin grants no access.

Pins may overlap: an object belongs to the outermost pin that covers it, so each byte counts once.

    datasets/imagenet/         the outermost: has the blocks of everything under it
    datasets/imagenet/val/     comes into its own when the first one is removed

All pins together have a quota of the SSD tier. Blocks beyond it are kept as if they were not pinned.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from forebay.core.names import ObjectName

MAX_PINS: Final = 256
"""The most pins: each admission of a block looks for its pin."""
DEFAULT_SHARE: Final = 0.75
"""The share of the SSD tier that pins may take if no quota is set. The rest is for other objects."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned prefix of keys; an empty one is the whole bucket."""

    bucket: str
    prefix: str
    since: float
    """The time at which the pin was made, in seconds since the epoch."""
    objects: int | None = None
    """Objects that the origin listed under it then; None: it was not listed to its end."""
    size: int | None = None
    """Their bytes."""

    @property
    def path(self) -> str:
        """The common start of the paths of its objects."""
        return f"{self.bucket}/{self.prefix}"

    def covers(self, name: ObjectName) -> bool:
        """Returns whether an object is pinned by it. Parts of an upload never are: their keys contain a NUL."""
        return name.bucket == self.bucket and name.key.startswith(self.prefix) and "\0" not in name.key


class PinSet:
    """All pins of a node, and their quota. Immutable."""

    def __init__(self, pins: Iterable[Pin] = (), quota: int | None = None) -> None:
        """`quota`: bytes of the SSD tier; None: DEFAULT_SHARE of it."""
        self.wanted_quota = quota
        self._pins = {(pin.bucket, pin.prefix): pin for pin in pins}
        self._outermost: dict[str, list[Pin]] = {}
        for _, pin in sorted(self._pins.items()):  # what a prefix contains comes behind it
            found = self._outermost.setdefault(pin.bucket, [])
            if not found or not pin.prefix.startswith(found[-1].prefix):
                found.append(pin)
        self._prefixes = {bucket: tuple(pin.prefix for pin in pins) for bucket, pins in self._outermost.items()}

    def __len__(self) -> int:
        """Returns the number of pins."""
        return len(self._pins)

    def __iter__(self) -> Iterator[Pin]:
        """Yields the pins in the order of their paths."""
        return iter(self._pins[key] for key in sorted(self._pins))

    def find(self, name: ObjectName) -> Pin | None:
        """Returns the outermost pin that covers an object; None: it is not pinned."""
        prefixes = self._prefixes.get(name.bucket)
        if prefixes is None or not name.key.startswith(prefixes) or "\0" in name.key:
            return None
        return next(pin for pin in self._outermost[name.bucket] if name.key.startswith(pin.prefix))

    def get(self, bucket: str, prefix: str) -> Pin | None:
        """Returns the pin of exactly this prefix."""
        return self._pins.get((bucket, prefix))

    def outermost(self) -> Iterator[Pin]:
        """Yields the pins that no other one contains."""
        for pins in self._outermost.values():
            yield from pins

    def is_outermost(self, pin: Pin) -> bool:
        """Returns whether no other pin contains this one."""
        return pin in self._outermost.get(pin.bucket, ())

    def within(self, pin: Pin) -> Iterator[Pin]:
        """Yields the pins that a pin contains, itself among them."""
        return (each for each in self if each.bucket == pin.bucket and each.prefix.startswith(pin.prefix))

    def with_pin(self, pin: Pin) -> "PinSet":
        """Returns these pins and another one, in place of that of the same prefix."""
        return PinSet((*self._pins.values(), pin), self.wanted_quota)

    def without(self, pin: Pin) -> "PinSet":
        """Returns these pins but one."""
        return PinSet((each for each in self._pins.values() if each != pin), self.wanted_quota)

    def with_quota(self, quota: int | None) -> "PinSet":
        """Returns these pins under another quota."""
        return PinSet(self._pins.values(), quota)

    def quota_of(self, capacity: int) -> int:
        """Returns the bytes that the pins may take of an SSD tier with this capacity."""
        return int(DEFAULT_SHARE * capacity) if self.wanted_quota is None else self.wanted_quota

    def needed(self, used: Mapping[Pin, int]) -> int:
        """Returns an estimate of the bytes that the pins will take: of each the listed size, or the bytes that it has
        by now, if they are more. `used`: bytes that pins have; 0 for the others."""
        return sum(self.needed_by(pin, used) for pin in self.outermost())

    def needed_by(self, pin: Pin, used: Mapping[Pin, int]) -> int:
        """Returns the bytes that one pin will take, together with the pins inside it."""
        return max(pin.size or 0, sum(used.get(each, 0) for each in self.within(pin)))


NO_PINS: Final = PinSet()
