"""A command that calls the admin port, from its row of the table to the exit code.

main imports it, and it imports the command, only when one is to run: `forebay serve` and the help need neither.
"""

import argparse
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final, TypeAlias

from forebay_client.cli.admin_address import DEFAULT_ADDRESS, parse_admin_address
from forebay_client.cli.admin_client import AdminClient, AdminError, AdminRefused
from forebay_client.cli.command_context import CommandContext, UsageError
from forebay_client.cli.command_table import COMMANDS

Run: TypeAlias = Callable[[AdminClient, CommandContext, argparse.Namespace], int]
"""Runs a command; the exit code. Raises AdminError, UsageError."""

REFUSED_VALUES: Final = ("bad_request", "bad_list", "bad_plan", "bad_recording", "settings_refused")
"""Errors of the admin port about a value of the command line or a file that was sent: wrong usage."""

_QUOTED: Final = re.compile("'([a-z_]+)'")


def run_client_command(context: CommandContext, args: argparse.Namespace) -> int:
    """Runs the command of a command line; its exit code."""
    try:
        return function_of(args.command)(_admin(args.admin, context), context, args)
    except UsageError as error:
        context.screen.write_error(str(error))
        return 2
    except AdminError as error:
        is_value = isinstance(error, AdminRefused) and error.error in REFUSED_VALUES
        context.screen.write_error(_with_options(str(error), args.command) if is_value else str(error))
        return 2 if is_value else 1


def _with_options(message: str, command: str) -> str:
    """The message with options of the command in place of the fields that they were sent as."""
    names = [name for name, _ in COMMANDS[command].arguments if name.startswith("--")]
    options = {name[2:].replace("-", "_"): name for name in names}

    def option(found: re.Match[str]) -> str:
        return options.get(found[1]) or options.get(found[1].removesuffix("s"), found[0])  # a list of one

    return _QUOTED.sub(option, message)


def function_of(command: str) -> Run:
    """The function that runs a command."""
    module, _, name = COMMANDS[command].run.partition(":")
    run: Run = getattr(import_module(f"forebay_client.cli.{module}"), name)
    return run


def _token_of_file(path: str | None) -> str | None:
    """The token in the first line of a file; None if no file is named."""
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"FOREBAY_ADMIN_TOKEN_FILE: {path} can't be read: {reason}.") from error


def _admin(address: object, context: CommandContext) -> AdminClient:
    """The client of the admin port that the option or the environment names."""
    environ = context.environ
    token = environ.get("FOREBAY_ADMIN_TOKEN") or _token_of_file(environ.get("FOREBAY_ADMIN_TOKEN_FILE"))
    if token is not None and not token.isprintable():
        raise UsageError("FOREBAY_ADMIN_TOKEN holds a line end or another character that a token can't have.")
    try:
        chosen = parse_admin_address(str(address or context.environ.get("FOREBAY_ADMIN") or DEFAULT_ADDRESS))
    except ValueError as error:
        raise UsageError(f"FOREBAY_ADMIN: {error}") from error
    return AdminClient(chosen, token)
