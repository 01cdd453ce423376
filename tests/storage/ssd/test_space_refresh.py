"""What a process rereads of a directory that others write to, and which of its own segments it ends for them."""

from pathlib import Path

from forebay.storage.ssd.segments.segment_label import PINNED_BAND, PLAIN, SegmentLabel
from storage.ssd.writer_parts import writer_parts


def test_segments_of_others_are_found_with_their_sizes(tmp_path: Path) -> None:
    with writer_parts(tmp_path / "ssd") as parts:
        parts.write(parts.admission("a"))
        parts.opened.space.replace({}, {})  # as if another process had written it
        parts.refresh.refresh_if_due()
        assert parts.opened.index.segments() == {0: 0}, "its length is not known before its end"
        assert parts.opened.space.size_of(0) == parts.opened.segments.size(0) > 1000


def test_an_exclusive_directory_is_not_reread(tmp_path: Path) -> None:
    with writer_parts(tmp_path / "ssd") as parts:
        parts.write(parts.admission("a"))
        parts.opened.space.replace({}, {})
        parts.opened.directory.is_exclusive = True
        parts.refresh.refresh_if_due()
        assert parts.opened.space.segments() == []


def test_a_segment_whose_pin_is_gone_is_ended(tmp_path: Path) -> None:
    """So that reclaim, in any process, can have it."""
    pinned = SegmentLabel(b"nowhere!", PINNED_BAND)
    with writer_parts(tmp_path / "ssd") as parts:
        parts.write(parts.admission("a"))
        parts.write(parts.admission("b", label=pinned))
        parts.refresh.refresh_if_due()
        assert parts.appenders.labels() == [PLAIN]
        assert not parts.opened.segments.has_writer(1)
