"""A command line of `forebay`: parses it, runs it, and turns every outcome into an exit code.

    0  done
    1  failed, or its output was no longer wanted
    2  wrong usage
    3, 4, 5  of warm-up jobs: see job_report

Modules are imported for the command that runs: `forebay serve` and the help load none of the others'.
Scripts rely on the commands, the options, the codes and the JSON; docs/cli.md and its pages are the contract.
"""

import errno
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from forebay_client.cli.argument_parser import COMMAND_NAMES, PROXY_COMMANDS, make_parser
from forebay_client.cli.command_context import CommandContext, Screen, process_context
from forebay_client.cli.proxy_commands import run_proxy_command
from forebay_client.cli.run_command import run_program

_OPTIONS: Final = frozenset(("-h", "--help", "--version"))
"""The options that may stand in place of a command."""
_UNWRITABLE: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""The errors of writes to standard output, if it is a file."""


def run_command_line(arguments: Sequence[str] | None = None, context: CommandContext | None = None) -> int:
    """Runs one command line; the exit code. Both arguments default to the process's own."""
    context = context or process_context()
    screen = context.screen
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments, context)
        screen.out.flush()
    except KeyboardInterrupt:
        screen.write_error("Interrupted.")
        return 1
    except BrokenPipeError:
        _discard_output(screen)  # its reader has exited (`forebay ls ... | head`)
        return 1
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        _discard_output(screen)
        screen.err.write(f"The output can't be written: {error.strerror}.\n")
        return 1
    return code


def _run(arguments: Sequence[str], context: CommandContext) -> int:
    if arguments and arguments[0] not in COMMAND_NAMES and arguments[0] not in _OPTIONS:
        context.screen.write_error(_unknown_command(arguments[0]))
        return 2
    try:
        args = make_parser(arguments[0] if arguments else None).parse_args(arguments)
    except SystemExit as end:  # argparse has printed the reason, or its help
        return end.code if isinstance(end.code, int) else 2
    if args.command in PROXY_COMMANDS:
        return run_proxy_command(args.command, args, context.screen)
    if args.command == "run":
        return run_program(context, args.program, args.endpoint, args.name)
    from forebay_client.cli.client_command import run_client_command  # noqa: PLC0415 # see the module

    return run_client_command(context, args)


def _unknown_command(name: str) -> str:
    if name.startswith("-"):
        return f"There is no option {name} before a command: options follow it, as in `forebay stats --json`."
    close = get_close_matches(name, COMMAND_NAMES, n=1)
    suggestion = f" Did you mean `forebay {close[0]}`?" if close else ""
    return f"There is no command {name!r}.{suggestion} `forebay --help` lists the commands."


def _discard_output(screen: Screen) -> None:
    """Discards the rest of the output: Python flushes stdout once more when it exits
    (https://docs.python.org/3/library/signal.html#note-on-sigpipe)."""
    if screen.out is sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
