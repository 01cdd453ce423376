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
    acknowledged. A write may be repeated, but never over one that came after it."""
    writes = {each.effect: each for each in acknowledged}
    assert set(writes) <= set(history), f"lost: {set(writes) - set(history)}"
    assert set(history) <= {*writes, *unacknowledged}, "what nobody has sent"
    first = {effect: history.index(effect) for effect in writes}
    last = {effect: len(history) - 1 - list(history[::-1]).index(effect) for effect in writes}
    for later in acknowledged:
        for earlier in acknowledged:
            if earlier.ended < later.began:
                assert first[earlier.effect] < first[later.effect], f"{later} overtook {earlier}"
                if earlier.effect[0] == later.effect[0]:
                    assert last[earlier.effect] < first[later.effect], f"{earlier} came again over {later}"
