"""The speed of a warm-up job, and the time that it still takes. Pure: `now` is seconds of a monotonic clock."""

from forebay.jobs.state.warm_up_job import WarmUpJob


def bytes_per_second(job: WarmUpJob, now: float) -> float | None:
    """Returns the present speed; None: too early to say, or the job does not run."""
    rates = _rates(job, now)
    return rates[0] if rates is not None else None


def seconds_left(job: WarmUpJob, now: float) -> float | None:
    """Returns an estimate: by bytes where all sizes are known, else by objects. None: too early to say, or the job has
    nothing to fetch."""
    if not job.listing_ended or not job.may_fetch:
        return None
    rates = _rates(job, now)
    if rates is None:
        return None
    if job.sizes_known:
        until = job.order.until(job.capacity)
        total = job.bytes_listed if until is None else min(until, job.bytes_listed)
        left, rate = total - job.bytes_done, rates[0]
    else:
        left, rate = job.wanted - job.done - job.failed, rates[1]
    if left <= 0:
        return 0.0
    return left / rate if rate > 0 else None


def _rates(job: WarmUpJob, now: float) -> tuple[float, float] | None:
    """Returns bytes and objects a second."""
    return job.speed.rates(now, job.bytes_done, job.done + job.failed) if job.state == "running" else None
