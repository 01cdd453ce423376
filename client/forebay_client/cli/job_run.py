"""The job that a command starts in the server, followed to its end on demand.

The job goes on when the command ends; but Ctrl-C while it is followed cancels it. Exit codes: see job_report.
"""

from collections.abc import Mapping
from typing import Final

from forebay_client.cli.admin_client import AdminClient, AdminRefused, AdminUnreachable, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.deferred_interrupts import defer_interrupts
from forebay_client.cli.human_format import escape_unprintable
from forebay_client.cli.job_report import ENDED, capacity_sentence, check_report, exit_code, report_job, write_report
from forebay_client.cli.progress_display import BarDisplay, LineDisplay, NoDisplay, ProgressDisplay
from forebay_client.cli.text_tables import JOB_VERBS, job_target

POLL_INTERVAL: Final = 0.5
"""Seconds between two polls of a job."""
RESTART_PATIENCE: Final = 120.0
"""Seconds that Forebay may be away, while a job that survives is followed."""
_RESTARTING: Final = (404, 503)
"""Refusals of a Forebay that has not yet found its jobs again, or has no worker for the moment."""


def run_job(
    admin: AdminClient,
    context: CommandContext,
    path: str,
    fields: Mapping[str, object],
    *,
    follow: bool,
    report: str | None = None,
    as_json: bool,
) -> int:
    """Starts a job by a POST of `fields`, and reports it, at its end if it is followed. Returns the exit code.

    `report`: the file that lists its failures.
    """
    check_report(report)
    job: JsonObject | None = None
    try:
        # An interrupt between the request and its response would leave a job whose id is not known.
        with defer_interrupts():
            job = admin.post(path, fields)
        if follow and not as_json and not job["check"]:
            context.screen.write_line(
                f"Job {job['id']} {JOB_VERBS[job['action']]} {job_target(job)}; Ctrl-C cancels it."
            )
            context.screen.out.flush()
        if job["warning"] is not None and not as_json:
            context.screen.write_error(escape_unprintable(job["warning"]))
        if follow:
            job = follow_job(admin, context, job, as_json=as_json)
    except KeyboardInterrupt:
        if job is None:
            raise
        job = admin.delete(api_path("jobs", job["id"]))
    if report is not None:
        write_report(admin, job, report)
    if as_json:
        context.screen.write_json(job)
    else:
        report_job(context.screen, job)
    return exit_code(job)


def follow_job(admin: AdminClient, context: CommandContext, job: JsonObject, *, as_json: bool) -> JsonObject:
    """Polls a job until it has ended, through restarts of Forebay if it survives them; the job then."""
    screen = context.screen
    progress: ProgressDisplay = (
        NoDisplay() if as_json or job["check"] else BarDisplay(screen) if screen.is_terminal else LineDisplay(screen)
    )
    is_warned = False
    lost_at: float | None = None
    with progress:
        while job["state"] not in ENDED:
            context.sleep(POLL_INTERVAL)
            try:
                job = admin.get(api_path("jobs", job["id"]))
            except (AdminUnreachable, AdminRefused) as error:
                lost_at = context.monotonic() if lost_at is None else lost_at
                may_return = isinstance(error, AdminUnreachable) or error.status in _RESTARTING
                if not job["survives"] or not may_return or context.monotonic() - lost_at > RESTART_PATIENCE:
                    raise
                continue
            if lost_at is not None and not as_json:
                progress.warn("Forebay was restarted; the job goes on.")
            lost_at = None
            if job["fits"] is False and not job["if_fits"] and not is_warned:
                is_warned = True
                progress.warn(f"{capacity_sentence(job)}: not all of it will stay.")
            progress.show(job, context.monotonic())
    return job
