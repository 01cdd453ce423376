"""`forebay pack` and `forebay unpack`: jobs in the server that write packs, verify them, and take members out of them.

The commands follow their job, but for `--detach`.
"""

import argparse

from forebay_client.cli.admin_client import AdminClient, api_path
from forebay_client.cli.command_context import CommandContext, UsageError
from forebay_client.cli.job_run import run_job
from forebay_client.cli.s3_location import Location


def pack(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay pack`."""
    action = "check" if args.check else "delete" if args.delete else "pack"
    if args.delete and args.only is None:
        raise UsageError("Say with --only which members are taken out.")
    if args.check and args.delete:
        raise UsageError("--check and --delete are two jobs: say one of them.")
    if args.only is not None and not args.delete:
        raise UsageError("--only belongs to --delete: packing and --check have the whole prefix.")
    return _run(admin, context, args, action)


def unpack(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay unpack`."""
    return _run(admin, context, args, "unpack")


def _run(admin: AdminClient, context: CommandContext, args: argparse.Namespace, action: str) -> int:
    for each in (args.into, args.only):
        if each is not None and each.bucket != args.location.bucket:
            raise UsageError(
                f"{each} is in another bucket than {args.location}: a pack is in the bucket of its objects."
            )
    if args.only is not None and not args.only.prefix.startswith(args.location.prefix):
        raise UsageError(f"{args.only} is not under {args.location}.")
    fields, follow = _fields(args, action), not args.detach
    return run_job(admin, context, api_path("packs"), fields, follow=follow, report=args.report, as_json=args.json)


def _fields(args: argparse.Namespace, action: str) -> dict[str, object]:
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
