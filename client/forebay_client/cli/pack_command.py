"""`forebay pack` and `forebay unpack`: jobs in the server that write packs, verify them, and take members out of them.

The commands follow their job unless told to detach; Ctrl-C cancels it. Exit codes: see job_report.
"""

import argparse

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.deferred_interrupts import defer_interrupts
from forebay_client.cli.job_report import check_report, exit_code, report_job, write_report
from forebay_client.cli.s3_location import Location
from forebay_client.cli.text_tables import JOB_VERBS, job_target
from forebay_client.cli.warm_command import follow_job


def pack_problem(args: argparse.Namespace) -> str | None:
    """What is wrong with the arguments; None: nothing."""
    for each in (args.into, args.only):
        if each is not None and each.bucket != args.location.bucket:
            return f"{each} is in another bucket than {args.location}: a pack is in the bucket of its objects."
    if args.only is not None and not args.only.prefix.startswith(args.location.prefix):
        return f"{args.only} is not under {args.location}."
    return None


def pack_fields(args: argparse.Namespace, action: str) -> dict[str, object]:
    """The body of POST /v1/packs."""
    where: Location = args.location
    fields = {
        "bucket": where.bucket,
        "prefix": where.prefix,
        "action": action,
        "into": args.into.prefix if args.into is not None else None,
        "only": args.only.prefix if args.only is not None else None,
        "shard_size": getattr(args, "shard_size", None),
    }
    return {name: value for name, value in fields.items() if value is not None}


def run_pack(admin: AdminClient, context: CommandContext, args: argparse.Namespace, action: str) -> int:
    """Starts the job, and follows it. The exit code."""
    check_report(args.report)
    job: JsonObject | None = None
    try:
        # An interrupt between the request and its response would leave a job whose id is not known.
        with defer_interrupts():
            job = admin.post(api_path("packs"), pack_fields(args, action))
        if not args.detach:
            if not args.json:
                context.screen.write_line(f"Job {job['id']} {JOB_VERBS[action]} {job_target(job)}; Ctrl-C cancels it.")
                context.screen.out.flush()
            job = follow_job(admin, context, job, as_json=args.json)
    except KeyboardInterrupt:
        if job is None:
            raise
        job = admin.delete(api_path("jobs", job["id"]))
    if args.report is not None:
        write_report(admin, job, args.report)
    if args.json:
        context.screen.write_json(job)
    else:
        report_job(context.screen, job)
    return exit_code(job)
