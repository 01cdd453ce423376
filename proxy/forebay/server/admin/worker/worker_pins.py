"""The admin port's verbs about pins, over one worker."""

from forebay.core.errors import PinRefused
from forebay.jobs.pin_registry import PinRegistry, PinState
from forebay.server.admin.pin_changes import PinChanges
from forebay.server.admin.schema.pin_schema import PinChange, PinList, PinView


class WorkerPins(PinChanges):
    """Answers from the pins of a worker."""

    def __init__(self, registry: PinRegistry) -> None:
        self._registry = registry

    def list_all(self) -> PinList:
        """All pins."""
        pins = tuple(map(_view, self._registry.states()))
        return PinList(pins, sum(pin.pinned for pin in pins), self._registry.quota)

    async def pins(self) -> PinList:
        """Returns the pins as this worker sees them."""
        return self.list_all()

    async def change(self, bucket: str, prefix: str, *, is_pinned: bool) -> PinChange:
        """Pins or unpins a prefix in this worker, and in the file that the others read."""
        before = next((each for each in self._registry.states() if _is_at(each, bucket, prefix)), None)
        try:
            if is_pinned:
                await self._registry.pin(bucket, prefix)
                after = next(each for each in self._registry.states() if _is_at(each, bucket, prefix))
                return PinChange(_view(after))
            await self._registry.unpin(bucket, prefix)
        except PinRefused as refused:
            return PinChange(None, str(refused))
        return PinChange(_view(before) if before is not None else None)


def _is_at(state: PinState, bucket: str, prefix: str) -> bool:
    return (state.pin.bucket, state.pin.prefix) == (bucket, prefix)


def _view(state: PinState) -> PinView:
    pin = state.pin
    return PinView(
        pin.bucket,
        pin.prefix,
        pin.since,
        pin.objects,
        pin.size,
        pinned=state.used,
        over_quota=state.is_over_quota,
    )
