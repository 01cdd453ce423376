"""Checkpoints: what writes that a journal acknowledges are worth, and what they cost others."""

from collections.abc import Mapping
from typing import Final

from benchmarks import checkpoint_saves, drain_reads, small_writes
from benchmarks.part_pages import Part

PARTS: Final[Mapping[str, Part]] = {
    "saves": checkpoint_saves.run,
    "small": small_writes.run,
    "drain": drain_reads.run,
}
