"""Warm-up jobs, translated between the admin port's schema and the jobs room. Imported by workers alone."""

from typing import Final

from forebay.core.pack_actions import PACK_ACTIONS
from forebay.core.units import parse_size
from forebay.jobs.state.job_estimate import bytes_per_second, seconds_left
from forebay.jobs.state.pack_order import DEFAULT_SHARD, PackOrder
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.state.warm_up_order import DEFAULT_CONCURRENCY, ListedSource, WarmUpOrder
from forebay.policy.packed_scopes import PackedScopes
from forebay.server.admin.schema.admin_schema import Job, WarmFailure
from forebay.server.admin.schema.pack_request import PackRequest
from forebay.server.admin.schema.warm_order import ObjectUrl, WarmOrder, parse_newer_than, parse_object_url, parse_until

SOURCES_SHOWN: Final = 20


def warm_up_order(order: WarmOrder, now: float) -> WarmUpOrder:
    """The order of a job. `now`: seconds since the epoch. The entries of its lists are not in it."""
    sources = [ListedSource(url.bucket, url.path) for url in map(_url, order.locations)]
    sources += [ListedSource.matching(url.bucket, url.path) for url in map(_url, order.globs)]
    if order.bucket is not None and order.prefix is not None:
        sources.insert(0, ListedSource(order.bucket, order.prefix))
    share, size = parse_until(order.until) if order.until is not None else (None, None)
    return WarmUpOrder(
        sources=tuple(sources),
        concurrency=order.concurrency or DEFAULT_CONCURRENCY,
        check=order.check,
        if_fits=order.if_fits,
        rate=order.rate,
        until_share=share,
        until_size=size,
        newer_than=parse_newer_than(order.newer_than, now) if order.newer_than is not None else None,
    )


def pack_job_order(order: PackRequest) -> WarmUpOrder:
    """The order of a pack job."""
    pack = PackOrder(
        order.bucket,
        order.prefix,
        order.into if order.into.endswith("/") else f"{order.into}/",
        parse_size(order.shard_size) if order.shard_size is not None else DEFAULT_SHARD,
        next(action for action in PACK_ACTIONS if action == order.action),
        order.only or order.prefix,
    )
    return WarmUpOrder(sources=(ListedSource(order.bucket, order.prefix),), pack=pack)


def _url(text: str) -> ObjectUrl:
    url = parse_object_url(text)
    if url is None:  # the schema has checked it
        raise ValueError(text)
    return url


def unread_pack(job: WarmUpJob, packed: PackedScopes) -> str | None:
    """A warning about a job whose pack no rule reads; None for all others."""
    pack = job.order.pack
    if pack is None or pack.action != "pack" or packed.has_pack(pack.bucket, pack.prefix, pack.index_key):
        return None
    return (
        f"No rule reads this pack: set `packed` to a pattern that matches {pack.index_key}, "
        f"in a rule for s3://{pack.bucket}/{pack.prefix}, and reload."
    )


def job_view(job: WarmUpJob, now: float, warning: str | None = None) -> Job:
    """The job as the admin port shows it. `now`: seconds of the clock by which its speed is measured."""
    order = job.order
    return Job(
        id=job.id,
        action="warm" if order.pack is None else order.pack.action,
        bucket=job.bucket,
        prefix=job.prefix,
        state=job.state,
        reason=job.reason,
        concurrency=order.concurrency,
        started_at=job.started_at,
        ended_at=job.ended_at,
        listed=job.listed,
        listing_ended=job.listing_ended,
        done=job.done,
        failed=job.failed,
        bytes_listed=job.bytes_listed,
        bytes_done=job.bytes_done,
        failures=tuple(WarmFailure(each.key, each.reason, each.bucket) for each in job.failures),
        check=order.check,
        if_fits=order.if_fits,
        capacity=job.capacity,
        fits=job.fits,
        kept=job.kept,
        bytes_kept=job.bytes_kept,
        bytes_in_memory=job.bytes_in_memory,
        bytes_on_ssd=job.bytes_on_ssd,
        not_kept=job.not_kept,
        sources=tuple(source.url for source in order.sources[:SOURCES_SHOWN]),
        listed_sources=len(order.sources),
        listed_keys=order.listed_keys,
        rate=order.rate,
        until=order.until(job.capacity) if job.listing_ended else None,
        newer_than=order.newer_than,
        older=job.older,
        left_out=job.left_out,
        bytes_fetched=job.bytes_fetched,
        bytes_per_second=bytes_per_second(job, now),
        seconds_left=seconds_left(job, now),
        waiting_for=job.waiting_for,
        warning=warning,
        survives=job.survives,
        resumed=job.resumed,
    )
