"""Copies of records: the block at a location, verified, encoded to be appended elsewhere. For the writer's thread."""

from forebay.core.byte_ranges import Span
from forebay.core.events import CorruptionFound, Observe, TierFailed
from forebay.storage.ssd.segment_appender import EncodedRecord, encode_record
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record_reads import Corrupt, read_record
from forebay.storage.ssd.segments.segments import SegmentFile


def copy_record(file: SegmentFile, location: BlockLocation, address: bytes, observe: Observe) -> EncodedRecord | None:
    """Returns the record of a block, read from the disk; None, with an event, if that fails or it does not verify."""
    try:
        payload = read_record(file, location, address, Span(0, location.length), wait=True)
    except OSError as error:
        observe(TierFailed("ssd", "reclaim", str(error)))
        return None
    if isinstance(payload, memoryview):
        return encode_record(address, payload)
    if isinstance(payload, Corrupt):
        observe(CorruptionFound("ssd", payload.reason))
    return None
