"""The answers of the admin port about pins, as dataclasses.

As in admin_schema: a field may be added, none is renamed or dropped; sizes are bytes, times seconds since the epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class PinView:
    """A pinned prefix."""

    bucket: str
    prefix: str
    since: float
    objects: int | None
    """Objects that the origin listed under it when it was pinned; None: not known."""
    size: int | None
    """Their bytes."""
    pinned: int
    """Bytes on the SSD that stay there because of this pin. What two pins cover counts for the outer one."""
    over_quota: bool
    """Whether blocks of it are kept as if they were not pinned, because pins have no room for them."""


@dataclass(frozen=True, slots=True)
class PinList:
    """GET /v1/pins: all pins, in the order of their paths."""

    pins: tuple[PinView, ...]
    pinned: int
    """Bytes of all pins."""
    quota: int
    """Bytes of the SSD tier that pins may take; 0 without such a tier."""


@dataclass(frozen=True, slots=True)
class PinRemoved:
    """DELETE /v1/pins: the pin as it was. What is cached stays until it gives way to other objects."""

    removed: PinView


@dataclass(frozen=True, slots=True)
class PinChange:
    """The outcome of a change of the pins in one worker."""

    pin: PinView | None
    """The pin that was made or removed; None: there was none, or it is refused."""
    problem: str | None = None
    """Why it is refused."""


def merged_pins(workers: Sequence[PinList]) -> PinList:
    """The pins of a node. All workers have the same ones, and look at the same SSD, each at a moment of its own."""
    if not workers:
        return PinList((), 0, 0)
    merged = {(pin.bucket, pin.prefix): pin for pin in workers[0].pins}
    for pin in (pin for answer in workers[1:] for pin in answer.pins):
        known = merged.get((pin.bucket, pin.prefix))
        if known is not None:
            over_quota = known.over_quota or pin.over_quota
            merged[pin.bucket, pin.prefix] = replace(known, pinned=max(known.pinned, pin.pinned), over_quota=over_quota)
    pins = tuple(merged.values())
    return PinList(pins, sum(pin.pinned for pin in pins), workers[0].quota)
