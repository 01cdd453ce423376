"""Pin changes: the verbs that pin and unpin a prefix, in all workers; and the pins that a warm-up job begins with."""

from abc import abstractmethod
from dataclasses import replace

from forebay.core.errors import PinRefused
from forebay.server.admin.control import PinVerbs
from forebay.server.admin.schema.pin_schema import PinChange, PinRemoved, PinView
from forebay.server.admin.schema.warm_order import WarmOrder


class PinChanges(PinVerbs):
    """The two verbs that change pins."""

    async def pin(self, bucket: str, prefix: str = "") -> PinView:
        """Changes the pins, in all workers."""
        change = await self.change(bucket, prefix, is_pinned=True)
        if change.pin is None:
            raise PinRefused(change.problem or "")
        return change.pin

    async def unpin(self, bucket: str, prefix: str = "") -> PinRemoved | None:
        """Changes the pins, in all workers."""
        change = await self.change(bucket, prefix, is_pinned=False)
        if change.problem is not None:
            raise PinRefused(change.problem)
        return PinRemoved(change.pin) if change.pin is not None else None

    @abstractmethod
    async def change(self, bucket: str, prefix: str, *, is_pinned: bool) -> PinChange:
        """Pins or unpins a prefix, in all workers."""


async def pin_order(pins: PinVerbs, order: WarmOrder) -> WarmOrder:
    """Pins the prefixes that a job's order names, all or none, and returns the order. Raises PinRefused."""
    if order.pin:
        before = {(pin.bucket, pin.prefix) for pin in (await pins.pins()).pins}
        made: list[PinView] = []
        try:
            for bucket, prefix in order.prefixes():
                made.append(await pins.pin(bucket, prefix))
        except PinRefused:
            for pin in made:
                if (pin.bucket, pin.prefix) not in before:
                    await pins.unpin(pin.bucket, pin.prefix)
            raise
    return replace(order, pin=False)
