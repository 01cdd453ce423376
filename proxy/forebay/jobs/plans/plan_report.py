"""The report of a plan's progress, as the resource and the admin port return it."""

from forebay.core.plan_progress import PlanProgress
from forebay.jobs.plans.plan_runner import PlanRunner


def progress_of(runner: PlanRunner) -> PlanProgress:
    """Returns how far the plan of a runner is."""
    window, record, counts = runner.window, runner.record, runner.counts
    seconds = runner.pace.seconds_of(window.lead)
    return PlanProgress(
        id=record.id,
        bucket=record.bucket,
        name=record.name,
        principal=record.principal,
        state=runner.state,
        sent_at=record.sent_at,
        ended_at=runner.ended_at,
        entries=record.entries,
        dropped=record.dropped,
        position=window.front if runner.closed_at is None else runner.closed_at,
        read=counts.read,
        late=counts.late,
        given_up=counts.given_up,
        failed=counts.failed,
        fetched_blocks=counts.fetched_blocks,
        fetched_bytes=counts.fetched_bytes,
        useless_bytes=counts.useless_bytes,
        lead_entries=window.lead_entries,
        lead_bytes=window.lead,
        lead_seconds=None if seconds is None else round(seconds, 3),
        data_set=runner.data_set,
    )
