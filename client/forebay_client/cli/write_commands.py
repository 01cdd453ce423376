"""The commands about acknowledged writes that are not at the origin yet."""

import argparse

from forebay_client.cli import writes_command
from forebay_client.cli.admin_client import AdminClient
from forebay_client.cli.client_command import UsageError
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.flush_command import run_flush
from forebay_client.cli.recordings_command import UnusableFile


def writes(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay writes`."""
    if (problem := writes_command.problem_with(args)) is not None:
        raise UsageError(problem)
    try:
        return writes_command.run_writes(admin, context, args)
    except UnusableFile as error:
        raise UsageError(str(error)) from error


def flush(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay flush`."""
    return run_flush(admin, context, args.location, args.timeout, as_json=args.json)
