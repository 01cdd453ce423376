"""The command `forebay`: parses the command line, runs it, and turns every outcome into an exit code.

    0  done
    1  failed, or its output was no longer wanted
    2  wrong usage
    3, 4, 5  of warm-up jobs: see job_report

Scripts rely on the commands, the options, the codes and the JSON; docs/cli.md is the contract.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from forebay_client.cli.admin_client import (
    DEFAULT_ADDRESS,
    AdminClient,
    AdminError,
    AdminRefused,
    parse_admin_address,
)
from forebay_client.cli.argument_parser import PROXY_COMMANDS, make_parser
from forebay_client.cli.client_command import UsageError
from forebay_client.cli.command_context import CommandContext, process_context
from forebay_client.cli.commands import COMMANDS
from forebay_client.cli.proxy_commands import run_proxy_command
from forebay_client.cli.run_command import run_program

REFUSED_VALUES: Final = ("bad_request", "bad_list", "settings_refused")
"""Errors of the admin port about a value of the command line or a file that was sent: wrong usage."""


def main(arguments: Sequence[str] | None = None, context: CommandContext | None = None) -> int:
    """Run one command line; the exit code. Both arguments default to the process's own."""
    context = context or process_context()
    try:
        args = make_parser().parse_args(arguments)
    except SystemExit as end:  # argparse has printed the reason, or its help
        return end.code if isinstance(end.code, int) else 2
    screen = context.screen
    try:
        if args.command in PROXY_COMMANDS:
            return run_proxy_command(args.command, args, screen)
        if args.command == "run":
            return run_program(context, args.program, args.endpoint, args.name)
        code = COMMANDS[args.command].run(_admin(args.admin, context), context, args)
        screen.out.flush()
    except UsageError as error:
        screen.write_error(str(error))
        return 2
    except AdminError as error:
        screen.write_error(str(error))
        return 2 if isinstance(error, AdminRefused) and error.error in REFUSED_VALUES else 1
    except KeyboardInterrupt:
        screen.write_error("Interrupted.")
        return 1
    except BrokenPipeError:
        # The reader of the output has exited (`forebay ls ... | head`). Python flushes stdout once more when it exits;
        # the rest is discarded (https://docs.python.org/3/library/signal.html#note-on-sigpipe).
        if screen.out is sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


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


if __name__ == "__main__":
    sys.exit(main())
