"""`forebay jobs`: lists the warm-up jobs, shows one, or cancels one."""

from forebay_client.admin_client import AdminClient, JsonObject, api_path
from forebay_client.command_context import CommandContext
from forebay_client.human_format import escape_unprintable
from forebay_client.text_tables import jobs_table
from forebay_client.warm_command import misfit, report_job


def run_jobs(admin: AdminClient, context: CommandContext, action: str, job_id: str | None, *, as_json: bool) -> int:
    """Carry out "ls", or "show" or "cancel" of a job; the exit code, 1 if a job to cancel had ended before."""
    if job_id is None:
        return _list_jobs(admin, context, as_json=as_json)
    path = api_path("jobs", job_id)
    job = admin.delete(path) if action == "cancel" else admin.get(path)
    if as_json:
        context.screen.write_json(job)
    elif action == "show":
        _show(context, job)
    elif job["state"] == "cancelled":
        context.screen.write_line(f"Cancelled job {escape_unprintable(job['id'])}.")
    else:
        context.screen.write_error(f"Job {escape_unprintable(job['id'])} had ended before: {job['state']}.")
    return 1 if action == "cancel" and job["state"] != "cancelled" else 0


def _list_jobs(admin: AdminClient, context: CommandContext, *, as_json: bool) -> int:
    jobs: list[JsonObject] = admin.get(api_path("jobs"))["jobs"]
    if as_json:
        for job in jobs:
            context.screen.write_json(job)
    elif jobs:
        context.screen.write_lines(jobs_table(jobs, context.wall_clock()))
    else:
        context.screen.write_error("There are no jobs since Forebay was started.")
    return 0


def _show(context: CommandContext, job: JsonObject) -> None:
    context.screen.write_lines(jobs_table([job], context.wall_clock()))
    if job["state"] in {"done", "failed"}:
        report_job(context.screen, job)
    elif job["fits"] is False:
        context.screen.write_line(f"{misfit(job)}.")
