"""The space refresh rereads other processes' changes to a shared directory: sizes and labels of segments, thresholds.

It ends this process's own segments that another process is to reclaim: those above a threshold now, or without their
pin. For the writer's thread.
"""

import time
from collections.abc import Callable
from typing import Final

from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.reclaim.ssd_pools import SsdPools
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.segment_appender import SegmentAppenders
from forebay.storage.ssd.segments.segment_label import SegmentLabel

INTERVAL: Final = 1.0
PAUSE_PER_SEGMENT: Final = 0.001  # reading the row of one costs some microseconds: about a hundredth of the time


class SpaceRefresh:
    """The refresh of one open directory."""

    def __init__(self, opened: OpenDirectory, appenders: SegmentAppenders, pools: SsdPools, pins: SsdPins) -> None:
        self._opened = opened
        self._appenders = appenders
        self._pools = pools
        self._pins = pins
        self._due_at = 0.0

    def refresh_if_due(self) -> None:
        """Rereads the thresholds, and at most every INTERVAL the sizes. Raises OSError, lmdb.Error."""
        self._opened.space.index_bytes = self._opened.index.size()
        if time.monotonic() >= self._due_at:
            self.reread_sizes()
        else:
            self._read_thresholds()
        self._pools.measure()
        self._finish_if(lambda label: label.is_pinned and not self._pins.is_current(label))
        self._opened.space.set_disk(self._opened.segments.disk())

    def refresh(self) -> None:
        """Rereads the sizes of segments and pools, and the thresholds."""
        self.reread_sizes()
        self._pools.measure()

    def reread_sizes(self) -> None:
        """Rereads the sizes of segments: other writers add segments as well. Their unfinished ones are as long as their
        files. Ends the own ones that another process has put above a threshold."""
        if self._opened.directory.is_exclusive:
            return
        rows = self._opened.index.segments()
        self._due_at = time.monotonic() + min(INTERVAL, len(rows) * PAUSE_PER_SEGMENT)
        sizes = {number: size or self._opened.segments.size(number) for number, size in rows.items()}
        self._opened.space.replace(sizes, self._opened.index.labels())
        self._read_thresholds()

    def _read_thresholds(self) -> None:
        """Rereads the few rows of thresholds. Another process may wait for the segments that are above one."""
        if not self._opened.directory.is_exclusive:
            self._pools.read_rows()
            self._finish_if(self._pools.is_above)

    def _finish_if(self, is_gone: Callable[[SegmentLabel], bool]) -> None:
        """Ends the segments that are written with such labels, so that reclaim, in any process, can have them."""
        for label in filter(is_gone, self._appenders.labels()):
            self._appenders.finish(label)
            self._appenders.release_filled()
