"""Reuse distances of recordings: the hit shares that tiers of any size would have had in the recorded epochs.

Every read is looked at, in order, where the statistics of a running process (datasets.data_set) see a sample: the
shares are exact up to MAX_UNITS blocks, and up to the columns of the histogram, 2 %. Of a larger set a uniform sample
of so many blocks is looked at, whose standard error is a third of a percent.

A recording has each read of an epoch once, so nothing is read again within one: the distances are those from epoch to
epoch. One epoch alone stands for an order that is the same each time.
"""

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from forebay.policy.distinct_objects import DistinctSample
from forebay.policy.reuse_distance import HASH_BITS, ReuseCurve, ReuseSample
from forebay.protocol.recordings.recording_file import RecordingDecoder

MAX_UNITS: Final = 1 << 16
MAX_EPOCHS: Final = 4
"""The most recordings in an estimate, the latest: more change little."""
WHOLE_EPOCH: Final = 0.9
"""Epochs with less than this share of the reads of the longest were broken off, and are left out."""
_MASK: Final = (1 << HASH_BITS) - 1
_MIX: Final = 0x9E37_79B1
_GOLDEN: Final = 0x9E37_79B9
"""The factors of the hashes, as in datasets.read_counts."""


class RecordedReuse(NamedTuple):
    """The measurements of a data set that recorded epochs give."""

    curve: ReuseCurve
    objects: int
    """Estimated above 2,048 of them."""
    block: float
    """Mean bytes of a block."""


def recorded_reuse(epochs: Sequence[bytes], block: int) -> RecordedReuse:
    """Returns the curve of epochs, the oldest first, by their files; one alone is taken to be repeated. `block`: bytes
    of the blocks that objects are cached in. Raises MalformedRecording. Takes some microseconds a read."""
    reuse, objects = ReuseSample(MAX_UNITS), DistinctSample()
    units: dict[int, int] = {}
    for content in epochs if len(epochs) > 1 else [*epochs, *epochs]:
        for page in RecordingDecoder(content).pages():
            for key, start, length, is_whole in page.reads:
                first = zlib.crc32(key.encode("utf-8", "surrogatepass")) * _MIX & _MASK
                stop = start + length
                objects.record(first, length)
                for number in range(start // block, -(-stop // block)):
                    unit = first + number * _GOLDEN & _MASK
                    begin = number * block
                    size = min(block, length - begin) if is_whole else block
                    reuse.record(unit, size, min(stop, begin + block) - max(start, begin))
                    if unit < reuse.threshold:
                        units[unit] = size
    sampled = [size for unit, size in units.items() if unit < reuse.threshold]
    mean = sum(sampled) / len(sampled) if sampled else 1.0
    return RecordedReuse(reuse.curve(), objects.estimate().objects, mean)
