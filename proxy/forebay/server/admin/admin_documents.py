"""The JSON of the admin port: what each answer of a Control looks like on the wire. Pure; docs/cli.md shows them.

Programs read these: a field may be added, none is renamed or dropped. Sizes are bytes, times seconds since the Unix
epoch, ratios 0 to 1 or null where nothing was counted yet.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Final, assert_never

from forebay.server.admin.admin_schema import (
    CacheEntry,
    CachePage,
    ConfigChanged,
    Document,
    Job,
    NotReady,
    Purged,
    Ready,
    Resized,
)
from forebay.server.admin.stats_schema import RuleReads, Stats, TierStats

JOBS_END: Final = "Jobs end with the process: none is taken up again after a restart."


def ready_document(answer: Ready | NotReady) -> Document:
    match answer:
        case Ready():
            return {"ready": True, "reasons": []}
        case NotReady(reasons):
            return {"ready": False, "reasons": list(reasons)}
        case _:
            assert_never(answer)


def figures_document(figures: Stats) -> Document:
    return {
        "version": figures.version,
        "uptime": figures.uptime,
        "workers": figures.workers,
        "workers_alive": figures.workers_alive,
        "requests": {
            "total": sum(figures.requests.values()),
            "by_status": {str(status): count for status, count in sorted(figures.requests.items())},
        },
        "bytes_sent": figures.bytes_sent,
        "bytes_received": figures.bytes_received,
        "hits": _ratios(figures.reads),
        "reads": [{**asdict(reads), **_ratios([reads])} for reads in figures.reads],
        "tiers": [_tier(tier) for tier in figures.tiers],
        "flights": asdict(figures.flights),
        "jobs": {"running": figures.jobs_running},
        "budget": asdict(figures.budget),
        "origin": asdict(figures.origin),
    }


def changed_document(answer: ConfigChanged) -> Document:
    return {"changed": list(answer.changed), "needs_restart": list(answer.needs_restart)}


def job_document(job: Job) -> Document:
    return {**asdict(job), "note": JOBS_END}


def listing_document(listing: CachePage) -> Document:
    return {"objects": [_cached(cached) for cached in listing.objects], "next": listing.next}


def purged_document(answer: Purged) -> Document:
    return asdict(answer)


def resized_document(answer: Resized) -> Document:
    return asdict(answer)


def _cached(cached: CacheEntry) -> Document:
    return {
        "bucket": cached.name.bucket,
        "key": cached.name.key,
        "size": cached.size,
        "etag": cached.etag,
        "memory": cached.memory,
        "ssd": cached.ssd,
        "cached": cached.cached,
        "validated_at": cached.validated_at,
    }


def _tier(tier: TierStats) -> Document:
    return {"name": tier.name, "state": tier.state, **asdict(tier.occupancy)}


def _ratios(reads: Iterable[RuleReads]) -> Document:
    """Shares of the bytes that clients were sent. A hit is a byte that didn't need a fetch of its own."""
    rows = list(reads)
    sent = sum(row.memory + row.ssd + row.joined + row.origin for row in rows)
    if not sent:
        return {"hit_ratio": None, "memory_ratio": None, "ssd_ratio": None, "joined_ratio": None, "amplification": None}
    memory, ssd, joined = (sum(getattr(row, source) for row in rows) for source in ("memory", "ssd", "joined"))
    missed = sent - memory - ssd - joined
    return {
        "hit_ratio": (memory + ssd + joined) / sent,
        "memory_ratio": memory / sent,
        "ssd_ratio": ssd / sent,
        "joined_ratio": joined / sent,
        "amplification": sum(row.fetched for row in rows) / missed if missed else None,
    }
