"""Whether the blocks of segments were read, by their reference bits."""

from pathlib import Path

from forebay.storage.ssd.reference_bits import ReferenceBits
from forebay.storage.ssd.segments.addressing import Addressing
from forebay.storage.ssd.segments.segment_use import SegmentUse
from forebay.storage.ssd.segments.segments import Segments, scan_segment
from harness.ssd_rig import block_id, commit_blocks, open_tier


async def test_a_read_is_seen_once(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, *((block_id("a", number), 1_000) for number in range(20)))
    await tier.close()
    segments, references = Segments(tmp_path / "ssd" / "segments"), ReferenceBits(tmp_path / "bits")
    (number,) = segments.numbers()
    file = segments.open_reader(number)
    assert file is not None
    addresses = [record.address for record in scan_segment(file, number, file.size())]
    use = SegmentUse(segments, references)
    assert not use.was_read([number])
    references.mark(addresses[7])
    references.mark(addresses[8])
    assert [use.was_read([number, 999]), use.was_read([number])] == [True, False]
    references.mark(Addressing(lambda _: "other", bytes(16)).block_address(block_id("b")))
    assert not use.was_read([number])
    assert not use.was_read([])
    references.close()
