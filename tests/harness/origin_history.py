"""The history of an origin, and whether it is one that the acknowledgements of its clients allow.

Each write can be told from every other: a PUT by its content, a DELETE by its key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.fake.store import Bucket, Store, StoredObject

Effect = tuple[str, bytes | None]
"""The key, and its content from then on; None: it is deleted."""


@dataclass(frozen=True)
class AcknowledgedWrite:
    """A write as its client saw it. Times of one monotonic clock."""

    effect: Effect
    began: float
    ended: float


class RecordingStore(Store):
    """Records what becomes of each object, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Effect] = []

    def add(self, bucket: Bucket, version: StoredObject) -> StoredObject:
        content = b"".join(bytes(view) for view in version.content.views(0, version.content.size))
        self.history.append((version.key, content))
        return super().add(bucket, version)

    def delete(self, bucket: str, key: str, version_id: str | None = None) -> StoredObject | None:
        if ".forebay-probe-" not in key:  # it never was
            self.history.append((key, None))
        return super().delete(bucket, key, version_id)


def check_history(
    acknowledged: Sequence[AcknowledgedWrite], history: Sequence[Effect], unacknowledged: Sequence[Effect] = ()
) -> None:
    """Each acknowledged write is there, in an order that its clients could have seen; others are those that nobody was
    acknowledged. A write may be repeated, but never over one that came after it. Of two writes of an object at the same
    time the one that is replaced at once need not have been there."""
    first: dict[Effect, int] = {}
    last: dict[Effect, int] = {}
    for position, effect in enumerate(history):
        first.setdefault(effect, position)
        last[effect] = position
    writes = {each.effect for each in acknowledged}
    arrived = [each for each in acknowledged if each.effect in first]
    lost = [each for each in acknowledged if each.effect not in first and not _is_replaced_at_once(each, arrived)]
    assert not lost, f"lost: {lost}"
    assert first.keys() <= {*writes, *unacknowledged}, "what nobody has sent"
    ended = sorted(arrived, key=lambda each: each.ended)
    position, latest = 0, -1
    latest_of: dict[str, int] = {}
    for later in sorted(arrived, key=lambda each: each.began):
        while ended[position].ended < later.began:  # before the end: it has ended after it began itself
            earlier = ended[position].effect
            latest = max(latest, first[earlier])
            latest_of[earlier[0]] = max(latest_of.get(earlier[0], -1), last[earlier])
            position += 1
        comes = first[later.effect]
        assert latest < comes, f"{later} overtook {history[latest]}"
        assert latest_of.get(later.effect[0], -1) < comes, f"an older write of its object came again over {later}"


def _is_replaced_at_once(write: AcknowledgedWrite, arrived: Sequence[AcknowledgedWrite]) -> bool:
    return any(
        other.effect[0] == write.effect[0] and other.began < write.ended and write.began < other.ended
        for other in arrived
    )
