"""Runs a module in a process that never outlives its parent.

    python -m forebay.workers.parent_watch MODULE [ARGUMENT ...]

Standard input is a pipe whose other end the parent keeps open and never writes to. When the parent ends, by whatever
cause (SIGKILL included), the kernel closes that end, and the process kills its whole group. The parent's process id is
watched too, because a process forked from the parent may still have the pipe open.

Not PR_SET_PDEATHSIG: that fires when the starting *thread* ends, and demos and tests start processes from threads.

The process must lead a process group (forebay_demo.child_process sees to it), so that its own children end too.
"""

import os
import runpy
import select
import signal
import sys
import threading

_PARENT_POLL = 1000  # milliseconds; only matters when another process still has the pipe open


def exit_with_parent(parent: int) -> None:
    """Kills the process group as soon as standard input ends, or the parent's process id is no longer `parent`."""
    # Looked up before the module runs: eventlet removes select.poll when it patches the standard library.
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)

    def wait() -> None:
        while os.getppid() == parent:
            if poll.poll(_PARENT_POLL) and not os.read(0, 4096):
                break
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()


def main() -> None:
    """Runs the module named on the command line."""
    module, *arguments = sys.argv[1:]
    exit_with_parent(os.getppid())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
