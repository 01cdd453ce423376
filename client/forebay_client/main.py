"""The command `forebay`: reads what was typed, runs it, and turns every end into an exit code.

    0  done
    1  failed, was cancelled, or its output was no longer wanted
    2  used wrongly

Scripts rely on the commands, the options, the codes and the JSON; docs/cli.md is the contract.
"""

import os
import sys
from collections.abc import Sequence

from forebay_client.admin import DEFAULT_ADDRESS, Admin, AdminError, parse_address
from forebay_client.commands import COMMANDS, UsedWrongly
from forebay_client.handover import hand_over
from forebay_client.parser import HANDED_OVER, make_parser
from forebay_client.surroundings import Surroundings, surroundings


def main(arguments: Sequence[str] | None = None, around: Surroundings | None = None) -> int:
    """Runs one command line; gives the exit code. Both arguments default to the process's own."""
    around = around or surroundings()
    try:
        args = make_parser().parse_args(arguments)
    except SystemExit as end:  # argparse has said why, or shown its help
        return end.code if isinstance(end.code, int) else 2
    screen = around.screen
    try:
        if args.command in HANDED_OVER:
            return hand_over(args.command, args, screen)
        code = COMMANDS[args.command](_admin(args.admin, around), around, args)
        screen.out.flush()
    except UsedWrongly as error:
        screen.complain(str(error))
        return 2
    except AdminError as error:
        screen.complain(str(error))
        return 1
    except KeyboardInterrupt:
        screen.complain("Interrupted.")
        return 1
    except BrokenPipeError:
        # Whoever read our output has gone (`forebay ls ... | head`). Python flushes stdout once more when it exits;
        # what is left goes nowhere (https://docs.python.org/3/library/signal.html#note-on-sigpipe).
        if screen.out is sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _admin(address: object, around: Surroundings) -> Admin:
    """The admin port that was asked for, by option or environment."""
    token = around.environ.get("FOREBAY_ADMIN_TOKEN") or None
    if token is not None and not token.isprintable():
        raise UsedWrongly("FOREBAY_ADMIN_TOKEN holds a line end or another character that a token can't have.")
    try:
        chosen = parse_address(str(address or around.environ.get("FOREBAY_ADMIN") or DEFAULT_ADDRESS))
    except ValueError as error:
        raise UsedWrongly(f"FOREBAY_ADMIN: {error}") from error
    return Admin(chosen, token)


if __name__ == "__main__":
    sys.exit(main())
