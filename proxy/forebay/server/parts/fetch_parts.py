"""The parts that fetch blocks in one worker: the flights, the fetcher, and the source that bodies are read from."""

from dataclasses import dataclass

from forebay.fetch.block_source import BlockSource
from forebay.fetch.fetcher import Fetcher
from forebay.fetch.flight import FlightRegistry
from forebay.fetch.paused_readers import PausedReaders
from forebay.fetch.run_source import ThroughputFloor
from forebay.origin.origins import Origins
from forebay.policy.coalescing import FetchBounds
from forebay.server.parts.storage_parts import StorageParts
from forebay.server.parts.worker_context import WorkerContext


@dataclass(frozen=True, slots=True)
class FetchParts:
    """The parts that fetch blocks."""

    flights: FlightRegistry
    fetcher: Fetcher
    block_source: BlockSource


def compose_fetch(context: WorkerContext, origins: Origins, storage: StorageParts) -> FetchParts:
    """Makes the parts that fetch into the tiers of `storage`."""
    settings, budget = context.settings.fetch, storage.budget
    bounds = FetchBounds(settings.max_run, settings.gap, settings.parallel)
    flights = FlightRegistry()
    floor = ThroughputFloor(settings.min_rate, context.timers)
    fetcher = Fetcher(origins, storage.tiers, flights, budget, context.tasks, context.observe, context.peers, floor)
    paused = PausedReaders(budget, context.timers)
    source = BlockSource(storage.tiers, fetcher, bounds, context.buffer_wait, context.observe, paused)
    return FetchParts(flights, fetcher, source)
