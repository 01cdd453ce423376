"""The document of a warm-up job in its record on the disk (state.job_store): JSON, by the names of the job's fields.

    {"id": ..., "state": ..., "done": ..., ..., "entries": 7,      as it is, or, of a job that goes on, at its position
     "order": {...}, "bucket": ..., "shards": [[key, size, etag], ...]}

Failures are kept by themselves.
"""

from collections.abc import Mapping
from typing import Any, Final, get_args

from forebay.jobs.state.job_progress import JobPosition
from forebay.jobs.state.warm_up_job import JobState, WarmUpJob
from forebay.jobs.state.warm_up_order import WarmUpOrder
from forebay.protocol.packs.packed_member import PackShard

_FIELDS: Final = (
    *("id", "started_at", "state", "reason", "ended_at", "resumed", "listed", "listing_ended", "older", "left_out"),
    *("done", "failed", "bytes_listed", "bytes_done", "bytes_fetched", "capacity", "fits"),
    *("kept", "bytes_kept", "bytes_in_memory", "bytes_on_ssd", "not_kept"),
)


def job_document(job: WarmUpJob) -> dict[str, Any]:
    """Returns the document of a job; `job_from` reads it."""
    document = {name: getattr(job, name) for name in _FIELDS}
    if not job.has_ended:
        at = job.position
        document |= {"done": at.done, "failed": at.failed, "bytes_done": at.size, "entries": at.entries}
    shards = {"shards": [list(shard) for shard in job.shards]} if job.shards else {}
    return document | {"order": job.order.to_document(), "bucket": job.bucket} | shards


def job_from(document: Mapping[str, Any]) -> WarmUpJob:
    """Returns the job of a document. An unended job is queued. Raises KeyError, TypeError, ValueError."""
    order = WarmUpOrder.from_document(document["order"])
    job = WarmUpJob(str(document["id"]), order, float(document["started_at"]))
    for name in _FIELDS:
        setattr(job, name, document[name])
    if job.state not in get_args(JobState):
        raise ValueError(f"no state: {job.state}")
    job.bucket, job.survives = str(document["bucket"]), True
    job.shards = [PackShard(str(key), int(size), str(etag)) for key, size, etag in document.get("shards", ())]
    if not job.has_ended:
        job.state = "queued"
        job.position = JobPosition(int(document["entries"]), job.done, job.failed, job.bytes_done)
        job.resumed += 1
    return job
