"""The size of a benchmark run: enough for figures, or just enough to see that the benchmarks work.

Sizes of objects are the same in both; only counts and times differ.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks import ROOT

KIB: Final = 1 << 10
MIB: Final = 1 << 20
TENSOR: Final = 602_112
"""Bytes of a float32 image of 3 x 224 x 224."""


@dataclass(frozen=True, slots=True)
class RunSizes:
    """Times in seconds."""

    rounds: int
    """Of each peer, in turns."""
    round_seconds: float
    connections: tuple[int, ...]
    warm_objects: int
    """Of each size; of the largest a quarter as many."""
    warm_sizes: tuple[int, ...]
    cold_reads: tuple[tuple[int, int], ...]
    """Size, and how many reads each way."""
    cold_large: tuple[int, int]
    """Size, and how many turns."""
    writes: tuple[tuple[int, int], ...]
    """Size, and how many writes each way, of each form."""
    readers: int
    stampede_size: int
    cached_blocks: int
    restarts: int
    scale_blocks: int
    scale_misses: tuple[int, int]
    """How many objects of 4 KiB and of 1 MiB."""
    scale_lookups: int
    training: tuple[int, float]
    """Samples of an epoch, and what each takes to be trained on."""
    training_batches: tuple[int, ...]
    training_workers: tuple[int, ...]
    boto_threads: tuple[int, ...]
    boto_objects: int
    ssd_objects: int
    """Of each size at the least."""
    ranged_size: int
    """Of the object that ranges are read of."""
    neighbour_requests: int
    epoch_set: tuple[int, int]
    """Objects of a set that is larger than the cache, and their size."""
    epoch_count: int
    epoch_shares: tuple[float, ...]
    """Sizes of the tiers, over that of the set."""
    epoch_workers: tuple[int, ...]
    plan_samples: tuple[int, int]
    """Tensors, and samples of 20,000 bytes."""
    plan_long: int
    """Tensors of a longer epoch, in which less of it is its beginning."""
    plan_readers: tuple[int, ...]
    plan_compute: float
    """What a reader computes for after each sample."""
    plan_steps: tuple[float, ...]
    """The same of readers that are faster and faster."""
    plan_rounds: int
    half_rounds: int
    prefetched: tuple[int, int]
    """Tensors, and samples of 20,000 bytes, that are fetched ahead beside reads."""
    reads_beside: tuple[int, int]
    """Turns, and rounds of reads in each that have nothing beside them."""
    listing: tuple[int, float]
    """Keys, and how long an object of them is fresh."""
    recorded_hits: tuple[tuple[int, int, int], ...]
    """Objects, turns of each server, workers."""
    relayed: tuple[tuple[int, int], ...]
    """Size and number of objects that are read through a worker that does not own them; no worker owns more."""
    node_workers: tuple[int, ...]
    """Workers of a Forebay whose first epoch has a plan."""
    checkpoints: tuple[tuple[str, int, int], ...]
    """How they are written, their size, and by how many ranks."""
    checkpoint_rounds: int
    small_writes: int
    backlog: tuple[int, int]
    """Writes, and their size."""
    plots: Path | None
    """Where plots go; None: they are not drawn."""

    @property
    def ssd_sizes(self) -> list[int]:
        """Of objects that are sent from where they lie."""
        return [size for size in self.warm_sizes if size >= 64 * KIB]


FULL: Final = RunSizes(
    rounds=4,
    round_seconds=1.0,
    connections=(1, 16, 128),
    warm_objects=16,
    warm_sizes=(4 * KIB, 64 * KIB, 128 * KIB, TENSOR, 8 * MIB),
    cold_reads=((4 * KIB, 100), (MIB, 60), (64 * MIB, 11)),
    cold_large=(1 << 30, 3),
    writes=((8 * MIB, 12), (64 * MIB, 4)),
    readers=1000,
    stampede_size=64 * MIB,
    cached_blocks=100_000,
    restarts=5,
    scale_blocks=1_000_000,
    scale_misses=(5_000, 500),
    scale_lookups=100_000,
    training=(2560, 0.008),
    training_batches=(16, 32, 64),
    training_workers=(2, 4, 6),
    boto_threads=(1, 8, 32),
    boto_objects=512,
    ssd_objects=16,
    ranged_size=1 << 30,
    neighbour_requests=2000,
    epoch_set=(4000, 250_000),
    epoch_count=4,
    epoch_shares=(0.2, 0.35, 0.5, 0.65, 0.8),
    epoch_workers=(1, 4),
    plan_samples=(500, 800),
    plan_long=2500,
    plan_readers=(2, 4, 6),
    plan_compute=0.01,
    plan_steps=(0.005, 0.0025, 0.0),
    plan_rounds=3,
    half_rounds=3,
    prefetched=(1500, 6000),
    reads_beside=(5, 30),
    listing=(1_000_000, 60.0),
    recorded_hits=((3_000, 60, 1), (20_000, 20, 1), (5_000, 30, 2)),
    relayed=((20_000, 200), (200_000, 200), (TENSOR, 200), (4_000_000, 100)),
    node_workers=(1, 2),
    checkpoints=(
        ("put", 64 * MIB, 1),
        ("put", 256 * MIB, 1),
        ("upload", 256 * MIB, 1),
        ("ranks", 256 * MIB, 8),
        ("torch", 256 * MIB, 1),
        ("dcp", 256 * MIB, 1),
        ("oss", 256 * MIB, 1),
    ),
    checkpoint_rounds=5,
    small_writes=300,
    backlog=(16, 64 * MIB),
    plots=ROOT / "docs" / "plots",
)
REDUCED: Final = replace(
    FULL,
    epoch_set=(2000, 250_000),
    epoch_workers=(1,),
    plan_samples=(300, 600),
    plan_long=0,
    plan_rounds=1,
    half_rounds=1,
    checkpoints=(
        ("put", 64 * MIB, 1),
        ("put", 256 * MIB, 1),
        ("upload", 128 * MIB, 1),
        ("ranks", 128 * MIB, 8),
        ("torch", 128 * MIB, 1),
        ("dcp", 128 * MIB, 1),
        ("oss", 128 * MIB, 1),
    ),
    checkpoint_rounds=3,
)
"""For a machine that has other work: sets of half the size, one worker, fewer turns."""
QUICK: Final = RunSizes(
    rounds=1,
    round_seconds=0.4,
    connections=(1, 16, 128),
    warm_objects=8,
    warm_sizes=(4 * KIB, 64 * KIB, 128 * KIB, TENSOR, 8 * MIB),
    cold_reads=((4 * KIB, 6), (MIB, 4), (64 * MIB, 2)),
    cold_large=(1 << 30, 1),
    writes=((8 * MIB, 3), (64 * MIB, 2)),
    readers=100,
    stampede_size=64 * MIB,
    cached_blocks=10_000,
    restarts=2,
    scale_blocks=20_000,
    scale_misses=(1_000, 50),
    scale_lookups=20_000,
    training=(128, 0.008),
    training_batches=(32,),
    training_workers=(2, 6),
    boto_threads=(1, 8),
    boto_objects=64,
    ssd_objects=4,
    ranged_size=64 * MIB,
    neighbour_requests=200,
    epoch_set=(400, 100_000),
    epoch_count=4,
    epoch_shares=(0.5,),
    epoch_workers=(1,),
    plan_samples=(100, 400),
    plan_long=0,
    plan_readers=(2,),
    plan_compute=0.01,
    plan_steps=(0.0,),
    plan_rounds=1,
    half_rounds=1,
    prefetched=(100, 300),
    reads_beside=(1, 4),
    listing=(20_000, 5.0),
    recorded_hits=((300, 2, 1),),
    relayed=((20_000, 30), (TENSOR, 20)),
    node_workers=(1, 2),
    checkpoints=(("put", 16 * MIB, 1), ("upload", 32 * MIB, 1), ("ranks", 32 * MIB, 4)),
    checkpoint_rounds=1,
    small_writes=20,
    backlog=(8, 16 * MIB),
    plots=None,
)
