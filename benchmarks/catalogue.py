"""What there is to measure: the benchmarks of each page, by the names that `python -m benchmarks` takes."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from benchmarks.bench_context import BenchContext
from benchmarks.cache import cold, neighbours, ranges, restart, ssd, stampede, warm, workers, writes
from benchmarks.checkpoints import checkpoint_saves, drain_reads, small_writes
from benchmarks.clients import client_batches, client_reads
from benchmarks.epochs import (
    epoch_beside,
    epoch_plans,
    epoch_recordings,
    epoch_shares,
    listings,
    node_workers,
    recorded_hits,
)
from benchmarks.misses import misses
from benchmarks.mounts import mounts, sample_epochs
from benchmarks.pages.tables import Section
from benchmarks.scale import scale
from benchmarks.training import training

Benchmark: TypeAlias = Callable[[BenchContext], list[Section]]

CACHE: Final[Mapping[str, Benchmark]] = {
    "warm": warm.run,
    "ssd": ssd.run,
    "ranges": ranges.run,
    "cold": cold.run,
    "writes": writes.run,
    "stampede": stampede.run,
    "workers": workers.run,
    "restart": restart.run,
    "neighbours": neighbours.run,
}
"""Those of docs/benchmarks.md, which is measured as a whole."""
LONG: Final[Mapping[str, Benchmark]] = {
    "misses": misses.run,
    "scale": scale.run,
    "training": training.run,
}
"""Each has a page of its own, and is run by its name alone."""
PARTED: Final[Mapping[str, Mapping[str, Benchmark]]] = {
    "checkpoints": {
        "saves": checkpoint_saves.run,
        "small": small_writes.run,
        "drain": drain_reads.run,
    },
    "clients": {
        "reads": client_reads.run_reads,
        "shares": client_reads.run_shares,
        "batches": client_batches.run_batches,
        "loose": client_batches.run_loose,
        "large": client_batches.run_large,
    },
    "epochs": {
        "shares": epoch_shares.run,
        "plans": epoch_plans.run,
        "half": epoch_plans.run_half,
        "beside": epoch_beside.run,
        "recordings": epoch_recordings.run,
        "hits": recorded_hits.run,
        "workers": node_workers.run,
        "listings": listings.run,
        "first-listing": listings.run_first,
    },
    "mounts": {
        "small": mounts.run_small,
        "samples": sample_epochs.run_samples,
        "large": mounts.run_large,
        "checkpoint": mounts.run_checkpoint,
    },
}
"""Each has a page of its own as well, and is run by its name and those of some of its parts, or of none for all."""
