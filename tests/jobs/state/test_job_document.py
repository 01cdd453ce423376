"""The document of a job: read as it was written, and from its position on where the job goes on."""

import json
from typing import Any

import pytest

from forebay.jobs.state.job_document import job_document, job_from
from forebay.jobs.state.job_progress import CompletedEntry, WarmUpFailure
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.protocol.packs.packed_member import PackShard
from harness.warm_orders import order_of


def job_of(**fields: Any) -> WarmUpJob:
    job = WarmUpJob("id", order_of("bucket", "p"), 5.0)
    for name, value in fields.items():
        setattr(job, name, value)
    return job


def stored(job: WarmUpJob) -> WarmUpJob:
    return job_from(json.loads(json.dumps(job_document(job))))


def test_an_ended_job_is_read_as_it_was() -> None:
    job = job_of(state="failed", reason="why", ended_at=7.0, listed=3, done=2, failed=1, kept=2, bytes_on_ssd=20)
    job.bucket, job.shards = "bucket", [PackShard("shard", 9, '"etag"')]
    again = stored(job)
    assert job_document(again) == job_document(job)
    assert (again.order, again.survives, again.resumed) == (job.order, True, 0)


def test_a_job_that_had_not_ended_goes_on_at_its_position() -> None:
    job = job_of(state="running", listed=4, done=2, failed=1, bytes_done=30)
    job.position.complete(0, CompletedEntry(10))
    job.position.complete(1, CompletedEntry(0, WarmUpFailure("bucket", "key", "why")))
    job.position.complete(3, CompletedEntry(20))  # beyond a gap: it is fetched again
    again = stored(job)
    assert (again.state, again.resumed, again.done, again.failed, again.bytes_done) == ("queued", 1, 1, 1, 10)
    assert (again.position.entries, again.position.done, again.position.failed, again.position.size) == (2, 1, 1, 10)


@pytest.mark.parametrize("change", [{"state": "lost"}, {"order": None}, {"entries": "many"}])
def test_a_document_of_something_else_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        job_from(job_document(job_of()) | change)


@pytest.mark.parametrize("name", ["id", "state", "order", "bucket", "entries", "bytes_kept"])
def test_each_field_is_needed(name: str) -> None:
    document = job_document(job_of())
    del document[name]
    with pytest.raises(KeyError):
        job_from(document)
