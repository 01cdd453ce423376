"""Which admissions of a batch are written."""

from pathlib import Path

from forebay.core.events import AdmissionThrottled
from forebay.storage.ssd.segments.segment_label import PINNED_BAND, PLAIN, SegmentLabel
from forebay.storage.ssd.write_queue import DropBlock, FlushQueue
from storage.ssd.writer_parts import writer_parts


def test_a_block_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    with writer_parts(tmp_path / "ssd") as parts:
        there, new = parts.admission("there"), parts.admission("new")
        parts.write(there)
        assert parts.admissions.select([there, new, FlushQueue(lambda _: None), new]) == [new]


def test_a_damaged_block_is_replaced_in_the_batch_that_drops_it(tmp_path: Path) -> None:
    with writer_parts(tmp_path / "ssd") as parts:
        damaged = parts.admission("damaged")
        location = parts.write(damaged)
        elsewhere = location._replace(offset=location.offset + 64)
        assert parts.admissions.select([DropBlock(damaged.address, elsewhere), damaged]) == []
        assert parts.admissions.select([DropBlock(damaged.address, location), damaged]) == [damaged]


def test_a_batch_is_at_most_as_large_as_a_record(tmp_path: Path) -> None:
    """It would turn over a large share of a tiny tier."""
    with writer_parts(tmp_path / "ssd") as parts:
        size = parts.opened.space.largest_record // 3
        orders = [parts.admission(str(number), size) for number in range(4)]
        assert parts.admissions.select(list(orders)) == orders[:2]
        assert [event.size for event in parts.events.of(AdmissionThrottled)] == [size, size]


def test_a_block_whose_pin_is_gone_is_written_as_any_other(tmp_path: Path) -> None:
    with writer_parts(tmp_path / "ssd") as parts:
        order = parts.admission("a", label=SegmentLabel(b"nowhere!", PINNED_BAND))
        assert parts.admissions.select([order]) == [order._replace(label=PLAIN)]
