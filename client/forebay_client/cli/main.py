"""The entry of the command `forebay`.

It imports next to nothing at its top, and the rest, which takes 0.1 s, while Ctrl-C simply ends the process: an
interrupted import would print a traceback, or lose the interrupt in a clean-up that can't raise.
"""

import signal
import sys


def main() -> int:
    """Runs the command line of this process. Returns the exit code."""
    is_raised = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where Ctrl-C is ignored: nohup
    if is_raised:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from forebay_client.cli.command_line import run_command_line  # noqa: PLC0415 # see the module

    if is_raised:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run_command_line()


if __name__ == "__main__":
    sys.exit(main())
