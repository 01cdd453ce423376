"""`forebay jobs`: lists the warm-up jobs, shows one, follows one to its end, or cancels one."""

import argparse
from typing import Final

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext, UsageError
from forebay_client.cli.human_format import escape_unprintable, format_plural
from forebay_client.cli.job_report import capacity_sentence, exit_code, report_job, write_report
from forebay_client.cli.job_run import follow_job
from forebay_client.cli.text_tables import jobs_table

_LIVE: Final = ("queued", "running")


def jobs(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay jobs`. Returns the exit code: 1 if a job to cancel had ended before; of "wait" that of
    `forebay warm --wait`."""
    action = args.action
    if (action == "ls") != (args.id is None):
        raise UsageError("Say `forebay jobs`, or `forebay jobs` with show, wait or cancel, and an ID.")
    if args.report is not None and action not in {"show", "wait"}:
        raise UsageError("--report is of one job: `forebay jobs show ID --report FILE`.")
    if action == "ls":
        return _list_jobs(admin, context, as_json=args.json)
    path = api_path("jobs", args.id)
    job = admin.get(path)
    is_cancelled = False
    if action == "cancel" and job["state"] in _LIVE:
        job = admin.delete(path)
        is_cancelled = job["state"] == "cancelled"  # else it came to its end meanwhile
    if action == "wait":
        job = follow_job(admin, context, job, as_json=args.json)
    if args.report is not None:
        write_report(admin, job, args.report)
    if args.json:
        context.screen.write_json(job)
    elif action == "show":
        _show(context, job)
    elif action == "wait":
        report_job(context.screen, job)
    elif is_cancelled:
        context.screen.write_line(f"Cancelled job {escape_unprintable(job['id'])}.")
    else:
        context.screen.write_error(f"Job {escape_unprintable(job['id'])} had ended before: {job['state']}.")
    if action == "wait":
        return exit_code(job)
    return 1 if action == "cancel" and not is_cancelled else 0


def _list_jobs(admin: AdminClient, context: CommandContext, *, as_json: bool) -> int:
    jobs: list[JsonObject] = admin.get(api_path("jobs"))["jobs"]
    context.screen.write_rows(
        jobs, lambda: jobs_table(jobs, context.wall_clock()), "There are no jobs.", as_json=as_json
    )
    return 0


def _show(context: CommandContext, job: JsonObject) -> None:
    context.screen.write_lines(jobs_table([job], context.wall_clock()))
    if job["warning"] is not None:
        context.screen.write_line(escape_unprintable(job["warning"]))
    if job["state"] in {"done", "failed"}:
        report_job(context.screen, job)
        return
    if job["waiting_for"] is not None:
        context.screen.write_line(f"It waits: {escape_unprintable(job['waiting_for'])}.")
    if job["resumed"]:
        context.screen.write_line(f"It has gone on after {format_plural(job['resumed'], 'restart')}.")
    if job["fits"] is False:
        context.screen.write_line(f"{capacity_sentence(job)}.")
