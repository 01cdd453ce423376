"""The segments that this process appends to: for each label one at a time, sequentially, the next one when it is full.

Used by the writer's thread only. Locations returned by `append` may be indexed: the bytes are in the kernel, and a
reader in any process sees them. They are not synced; a row that outlives its bytes in a power cut leads to a record
that does not verify.
"""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from forebay.core.buffers import Buffer
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record import encode_header, record_size
from forebay.storage.ssd.segments.segment_label import PLAIN, SegmentLabel
from forebay.storage.ssd.segments.segments import SegmentFile, Segments
from forebay.storage.ssd.segments.space_accounting import SpaceAccounting

# One writev accepts at most 1024 buffers (IOV_MAX), and a record is up to three.
BUFFERS_AT_ONCE: Final = 1000
BYTES_AT_ONCE: Final = 8 * 1024 * 1024


class EncodedRecord(NamedTuple):
    """A record to be written: its bytes, and the length of the payload among them."""

    pieces: tuple[Buffer | bytes, ...]
    size: int
    """The size of all pieces; a multiple of the alignment."""
    length: int


def encode_record(address: bytes, payload: Buffer) -> EncodedRecord:
    """Returns the record of a block, without a copy of its payload."""
    header = encode_header(address, payload)
    size = record_size(len(payload))
    padding = size - len(header) - len(payload)
    pieces = (header, payload, b"\0" * padding) if padding else (header, payload)
    return EncodedRecord(pieces, size, len(payload))


class SegmentAppender:
    """Appends records to one segment after the other."""

    def __init__(self, index: Index, segments: Segments, space: SpaceAccounting, label: SegmentLabel = PLAIN) -> None:
        """`label`: of the segments."""
        self._label = label
        self._index = index
        self._segments = segments
        self._space = space
        self._file: SegmentFile | None = None
        self._filled: list[SegmentFile] = []
        self._number = 0
        self._offset = 0
        self._limit = 0

    @property
    def current(self) -> int | None:
        """The number of the segment that is appended to."""
        return None if self._file is None else self._number

    def append(self, records: Sequence[EncodedRecord]) -> list[BlockLocation]:
        """Writes the records and returns their locations.

        Raises OSError or lmdb.Error: then none of them was kept, and the next call begins a new segment.
        """
        locations: list[BlockLocation] = []
        run: list[Buffer | bytes] = []
        size = 0
        try:
            for record in records:
                if self._file is None or self._offset + size + record.size > self._limit:
                    self._write(run, size)
                    run, size = [], 0
                    self._begin(record.size)
                elif len(run) > BUFFERS_AT_ONCE or size >= BYTES_AT_ONCE:
                    self._write(run, size)
                    run, size = [], 0
                locations.append(BlockLocation(self._number, self._offset + size, record.length))
                run.extend(record.pieces)
                size += record.size
            self._write(run, size)
        except BaseException:
            self._abandon()
            raise
        return locations

    def finish(self) -> None:
        """Ends the current segment; the next record begins another. Raises lmdb.Error."""
        if self._file is not None:
            with self._index.write_transaction() as txn:
                IndexUpdates(txn, self._index.tables).finish_segment(self._number, self._offset)
            self._file = None

    def release_filled(self) -> None:
        """Unlocks the segments that were filled: all rows are committed, so they may be reclaimed.

        Before that, reclaim in another process would find records that no row points to.
        """
        self._filled.clear()

    def _begin(self, at_least: int) -> None:
        with self._index.write_transaction() as txn:
            updates = IndexUpdates(txn, self._index.tables)
            if self._file is not None:
                updates.finish_segment(self._number, self._offset)
            number = updates.add_segment(self._label)
        if self._file is not None:
            self._filled.append(self._file)
        self._file = None
        self._number, self._offset = number, 0
        self._space.add(number, self._label)
        self._limit = max(self._space.segment_size, at_least)
        self._file = self._segments.create(number)

    def _write(self, pieces: list[Buffer | bytes], size: int) -> None:
        if not pieces or self._file is None:
            return
        written = os.pwritev(self._file.fd, pieces, self._offset)
        if written < size:
            # A full disk accepts what it can, and fails at the next attempt.
            rest = memoryview(b"".join(pieces))[written:]
            while rest:
                written = os.pwrite(self._file.fd, rest, self._offset + size - len(rest))
                rest = rest[written:]
        self._offset += size
        self._space.set_size(self._number, self._offset)

    def _abandon(self) -> None:
        """Ends a segment after a failed write: an unknown part of it reached the file. Reclaim deletes it later."""
        if self._file is not None:
            self._space.set_size(self._number, self._segments.size(self._number))
        self._file = None


class SegmentAppenders:
    """The appenders of all labels, each made when the first record comes."""

    def __init__(self, index: Index, segments: Segments, space: SpaceAccounting) -> None:
        self._index = index
        self._segments = segments
        self._space = space
        self._by_label: dict[SegmentLabel, SegmentAppender] = {}

    def append(self, label: SegmentLabel, records: Sequence[EncodedRecord]) -> list[BlockLocation]:
        """Writes the records to a segment with this label; see SegmentAppender."""
        appender = self._by_label.get(label)
        if appender is None:
            appender = SegmentAppender(self._index, self._segments, self._space, label)
            self._by_label[label] = appender
        return appender.append(records)

    def is_current(self, number: int) -> bool:
        """Returns whether a segment is being appended to."""
        return any(appender.current == number for appender in self._by_label.values())

    def labels(self) -> list[SegmentLabel]:
        """Returns the labels of the segments that are being appended to."""
        return [label for label, appender in self._by_label.items() if appender.current is not None]

    def finish(self, label: SegmentLabel) -> None:
        """Ends the current segment with a label. Raises lmdb.Error."""
        if (appender := self._by_label.get(label)) is not None:
            appender.finish()

    def finish_all(self) -> None:
        """Ends all current segments. Raises lmdb.Error."""
        for appender in self._by_label.values():
            appender.finish()

    def release_filled(self) -> None:
        """Unlocks the segments that were filled."""
        for appender in self._by_label.values():
            appender.release_filled()
