"""The commands about acknowledged writes that are not at the origin yet."""

import argparse
from typing import Final

from forebay_client.cli import writes_command
from forebay_client.cli.admin_client import AdminClient
from forebay_client.cli.argument_types import positive
from forebay_client.cli.client_command import FILE, LOCATION, ClientCommand, UsageError
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.flush_command import run_flush
from forebay_client.cli.recordings_command import UnusableFile


def _writes(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    if (problem := writes_command.problem_with(args)) is not None:
        raise UsageError(problem)
    try:
        return writes_command.run_writes(admin, context, args)
    except UnusableFile as error:
        raise UsageError(str(error)) from error


def _flush(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    return run_flush(admin, context, args.location, args.timeout, as_json=args.json)


_WRITES_ACTION: Final = {"nargs": "?", "choices": writes_command.ACTIONS, "default": "ls", "metavar": "ACTION"}

WRITE_COMMANDS: Final[dict[str, ClientCommand]] = {
    "writes": ClientCommand(
        _writes,
        "List the writes that are acknowledged and not at the origin; show, retry, export or discard one.",
        (
            ("action", {**_WRITES_ACTION, "help": "ls (default), show, retry, export or discard"}),
            ("write", {"nargs": "?", "metavar": "ID", "help": "the write; with ls: s3://bucket/prefix"}),
            (
                "file",
                {
                    **FILE,
                    "nargs": "?",
                    "help": "with export: the file to write; with discard: s3://bucket/key, the object",
                },
            ),
            ("--force", {"action": "store_true", "help": "with export: write over a file that exists"}),
            ("--state", {"choices": writes_command.STATES, "metavar": "STATE", "help": "list those in this state"}),
        ),
    ),
    "flush": ClientCommand(
        _flush,
        "Wait until the acknowledged writes under a prefix are at the origin.",
        (
            LOCATION,
            ("--timeout", {"type": positive, "metavar": "SECONDS", "help": "the longest wait (default: none)"}),
        ),
    ),
}
