"""Epochs: what eviction, plans, recordings and listings are worth to a training job."""

from collections.abc import Mapping
from typing import Final

from benchmarks import epoch_beside, epoch_plans, epoch_recordings, epoch_shares, listings, recorded_hits
from benchmarks.part_pages import Part

PARTS: Final[Mapping[str, Part]] = {
    "shares": epoch_shares.run,
    "plans": epoch_plans.run,
    "half": epoch_plans.run_half,
    "beside": epoch_beside.run,
    "recordings": epoch_recordings.run,
    "hits": recorded_hits.run,
    "listings": listings.run,
    "first-listing": listings.run_first,
}
