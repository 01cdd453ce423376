"""The speed of a job and the time left: by bytes, else by objects, and nothing where it is too early to say."""

from forebay.jobs.state.job_estimate import bytes_per_second, seconds_left
from forebay.jobs.state.warm_up_job import WarmUpJob
from harness.warm_orders import order_of


def running(*, prefix: str | None = "p", check: bool = False, until: int | None = None) -> WarmUpJob:
    """A job of ten objects of ten bytes each, four of which took two seconds."""
    job = WarmUpJob("id", order_of("bucket", prefix, listed_keys=prefix is None, check=check, until_size=until), 0.0)
    job.state, job.listed, job.bytes_listed = "running", 10, 100
    job.note_speed(100.0)
    job.end_listing(1000)
    job.done, job.bytes_done = 4, 40
    return job


def test_the_time_left_is_by_bytes_where_sizes_are_known() -> None:
    job = running()
    assert (bytes_per_second(job, 102.0), seconds_left(job, 102.0)) == (20.0, 3.0)
    job.bytes_done = 100
    assert seconds_left(job, 102.0) == 0.0


def test_only_wanted_bytes_count() -> None:
    assert seconds_left(running(until=60), 102.0) == 1.0


def test_the_time_left_is_by_objects_where_they_are_not() -> None:
    job = running(prefix=None)
    assert seconds_left(job, 102.0) == 3.0
    job.failed, job.left_out = 2, 2  # of ten, two are not wanted, four done, two failed
    assert seconds_left(job, 102.0) == 2 / 3


def test_nothing_is_said_too_early_or_of_a_job_without_fetches() -> None:
    assert (bytes_per_second(running(), 100.5), seconds_left(running(), 100.5)) == (None, None)
    assert seconds_left(running(check=True), 102.0) is None
    ended = running()
    ended.state = "done"
    assert (bytes_per_second(ended, 102.0), seconds_left(ended, 102.0)) == (None, None)
    listing = running()
    listing.listing_ended = False
    assert (bytes_per_second(listing, 102.0), seconds_left(listing, 102.0)) == (20.0, None)


def test_a_job_that_gets_nothing_done_has_no_end_in_sight() -> None:
    job = running()
    job.bytes_done = 0
    assert (bytes_per_second(job, 102.0), seconds_left(job, 102.0)) == (0.0, None)
