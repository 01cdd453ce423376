"""The commands about jobs of the server, and about what jobs are told: warm-ups, packs, plans, recordings."""

import argparse

from forebay_client.cli import plans_command
from forebay_client.cli.admin_client import AdminClient
from forebay_client.cli.client_command import UsageError
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.job_report import UnwritableReport
from forebay_client.cli.jobs_command import run_jobs
from forebay_client.cli.key_files import KeyFile, UnreadableFile, key_file
from forebay_client.cli.pack_command import pack_problem, run_pack
from forebay_client.cli.recordings_command import UnusableFile, problem_with, run_recordings
from forebay_client.cli.s3_location import SCHEMES
from forebay_client.cli.warm_command import WarmRequest, is_glob, run_warm


def warm(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay warm`."""
    files = [key_file(args.keys, "keys")] if args.keys is not None else []
    files += [key_file(args.manifest, args.format)] if args.manifest is not None else []
    _check_warm(args, files)
    bounds = {
        "concurrency": args.concurrency,
        "check": args.check or None,
        "if_fits": args.if_fits or None,
        "rate": args.rate,
        "until": args.until,
        "newer_than": args.newer_than,
        "pin": args.pin or None,
    }
    request = WarmRequest(
        args.location,
        files,
        args.columns,
        args.literal,
        {name: value for name, value in bounds.items() if value is not None},
        args.recording,
        args.plan,
    )
    is_followed = args.wait or args.check
    try:
        return run_warm(admin, context, request, wait=is_followed, report=args.report, as_json=args.json)
    except (UnreadableFile, UnwritableReport) as error:
        raise UsageError(str(error)) from error


def pack(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay pack`."""
    action = "check" if args.check else "delete" if args.delete else "pack"
    if args.delete and args.only is None:
        raise UsageError("Say with --only which members are taken out.")
    if args.check and args.delete:
        raise UsageError("--check and --delete are two jobs: say one of them.")
    if args.only is not None and not args.delete:
        raise UsageError("--only belongs to --delete: packing and --check have the whole prefix.")
    return _run_pack(admin, context, args, action)


def unpack(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay unpack`."""
    return _run_pack(admin, context, args, "unpack")


def _run_pack(admin: AdminClient, context: CommandContext, args: argparse.Namespace, action: str) -> int:
    if (problem := pack_problem(args)) is not None:
        raise UsageError(problem)
    try:
        return run_pack(admin, context, args, action)
    except UnwritableReport as error:
        raise UsageError(str(error)) from error


def _check_warm(args: argparse.Namespace, files: list[KeyFile]) -> None:
    is_ordered = args.recording is not None or args.plan is not None
    if not args.location and not files and not is_ordered:
        raise UsageError(
            "Say what to warm: s3://bucket/prefix, --keys FILE, --manifest FILE, --recording NAME or --plan NAME."
        )
    if is_ordered:
        _check_order(args, files)
    if files and (len(args.location) > 1 or any(each.prefix for each in args.location)):
        raise UsageError("With a list the location is a bucket alone, of the keys that name none: s3://bucket.")
    if args.if_fits and files:
        raise UsageError("--if-fits needs a prefix: the sizes of a list of keys are not known before.")
    if args.pin and (files or args.check or (not args.literal and any(map(is_glob, args.location)))):
        raise UsageError("--pin is for prefixes: not for a list, a glob or a check.")
    if args.newer_than is not None and files:
        raise UsageError("--newer-than needs a prefix or a glob: a list of keys has no dates.")
    fetching = (args.concurrency, args.rate, args.until, args.if_fits or None, args.report)
    if args.check and any(each is not None for each in fetching):
        raise UsageError(
            "--check fetches nothing; it has no --concurrency, --rate, --until, --if-fits and no --report."
        )
    if args.report is not None and not args.wait:
        raise UsageError("--report is written at the job's end: it needs --wait, or `forebay jobs show ID --report`.")
    if args.manifest is None and (args.format is not None or args.columns is not None):
        raise UsageError("--format and --columns describe a manifest: --manifest FILE.")
    if args.columns is not None and args.format != "s3-inventory":
        raise UsageError("--columns are those of an inventory: --format s3-inventory.")


def _check_order(args: argparse.Namespace, files: list[KeyFile]) -> None:
    """Of a recording or a plan."""
    if files or (args.recording is not None and args.plan is not None):
        raise UsageError("A job has one of --recording, --plan, and lists.")
    if len(args.location) > 1 or any(each.prefix for each in args.location):
        raise UsageError("With --recording or --plan the location is the bucket alone: s3://bucket.")
    if args.recording is not None and not args.location and not args.recording.startswith(SCHEMES):
        raise UsageError("Say in which bucket: `forebay warm s3://bucket --recording NAME`.")
    if args.if_fits or args.pin or args.newer_than is not None:
        raise UsageError("--if-fits, --pin and --newer-than need a prefix: not a recording or a plan.")


def jobs(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay jobs`."""
    if (args.action == "ls") != (args.id is None):
        raise UsageError("Say `forebay jobs`, or `forebay jobs` with show, wait or cancel, and an ID.")
    if args.report is not None and args.action not in {"show", "wait"}:
        raise UsageError("--report is of one job: `forebay jobs show ID --report FILE`.")
    try:
        return run_jobs(admin, context, args.action, args.id, report=args.report, as_json=args.json)
    except UnwritableReport as error:
        raise UsageError(str(error)) from error


def recordings(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay recordings`."""
    if (problem := problem_with(args)) is not None:
        raise UsageError(problem)
    try:
        return run_recordings(admin, context, args)
    except UnusableFile as error:
        raise UsageError(str(error)) from error


def plans(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay plans`."""
    if (problem := plans_command.problem_with(args)) is not None:
        raise UsageError(problem)
    try:
        if args.action == "send":
            return plans_command.send_plan(admin, context, args.id, args.file, args.key, as_json=args.json)
        return plans_command.run_plans(admin, context, args.action, args.id, as_json=args.json)
    except plans_command.UnusablePlan as error:
        raise UsageError(str(error)) from error
