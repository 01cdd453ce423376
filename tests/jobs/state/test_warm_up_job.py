"""A job's state: what its end depends on."""

import pytest

from forebay.jobs.state.job_progress import WarmUpFailure
from forebay.jobs.state.warm_up_job import EVICTED, MAX_FAILURES, NOT_FITTING, WarmUpJob
from harness.warm_orders import order_of


def job_of(
    *, listed: int = 2, done: int = 2, kept: int = 2, check: bool = False, prefix: str | None = "p"
) -> WarmUpJob:
    job = WarmUpJob("id", order_of("bucket", prefix, listed_keys=prefix is None, check=check), 0.0)
    job.listed, job.bytes_listed = listed, listed * 10
    job.end_listing(20)
    job.done, job.kept, job.bytes_done = done, kept, done * 10
    return job


def test_the_failures_kept_are_bounded() -> None:
    job = WarmUpJob("id", order_of("bucket"), 0.0)
    for number in range(MAX_FAILURES + 1):
        job.fail(WarmUpFailure("bucket", str(number), "why"))
    assert (job.failed, len(job.failures)) == (MAX_FAILURES + 1, MAX_FAILURES)


@pytest.mark.parametrize(
    ("job", "state", "not_kept"),
    [
        (job_of(), "done", None),
        (job_of(kept=1), "failed", EVICTED),
        (job_of(listed=3, done=3), "failed", NOT_FITTING),
        (job_of(kept=1, check=True), "failed", None),
        (job_of(done=1, kept=1), "failed", None),
    ],
)
def test_done_means_that_every_object_is_kept(job: WarmUpJob, state: str, not_kept: str | None) -> None:
    job.end()
    assert (job.state, job.not_kept) == (state, not_kept)


def test_an_object_that_failed_fails_the_job_even_if_it_is_cached() -> None:
    job = job_of(done=1)
    job.fail(WarmUpFailure("bucket", "key", "the origin answered 403"))
    job.end()
    assert job.state == "failed"


def test_whether_keys_fit_is_not_known_before() -> None:
    assert (job_of().fits, job_of(listed=3).fits, job_of(prefix=None).fits) == (True, False, None)
