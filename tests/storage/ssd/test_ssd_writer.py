"""The writer's end: nobody waits for a thread that is gone. What it writes is tested by the tier (test_ssd_tier)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.events import unobserved
from forebay.policy.pins import NO_PINS
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.reclaim.ssd_pools import SsdPools
from forebay.storage.ssd.recovery import OpenDirectory, close_directory, open_directory
from forebay.storage.ssd.ssd_writer import SsdWriter
from forebay.storage.ssd.write_queue import FlushQueue, WriteOrder, WriteQueue
from harness.ssd_rig import MIB, NOW, ORIGIN, trusting_run


class FailingQueue(WriteQueue):
    """A queue whose first batch is a defect of the writer's."""

    def __init__(self) -> None:
        super().__init__(MIB, MIB)
        self._has_failed = False

    def get_batch(self, linger_seconds: float, idle_seconds: float) -> list[WriteOrder] | None:
        if not self._has_failed:
            self._has_failed = True
            raise MemoryError
        return super().get_batch(linger_seconds, idle_seconds)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenDirectory]:
    run, origins = trusting_run(tmp_path / "ssd"), CacheOrigins.single(ORIGIN)
    found = open_directory(tmp_path / "ssd", 64 * MIB, origins, lambda: NOW, unobserved, run, family="node")
    yield found
    close_directory(found)


def test_nobody_waits_for_a_writer_that_has_failed(opened: OpenDirectory) -> None:
    pins, queue = SsdPins(opened.addressing, opened.space, NO_PINS), FailingQueue()
    pools = SsdPools(opened.index, opened.space, pins, lambda: NOW)
    settled: list[object] = []
    assert queue.submit(FlushQueue(settled.append))
    with pytest.raises(MemoryError):
        SsdWriter(opened, queue, pools, pins, unobserved).run()
    assert len(settled) == 1
    assert not queue.submit(FlushQueue(settled.append))
    assert opened.references.is_disowned
