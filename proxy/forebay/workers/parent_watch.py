"""Runs a module so that it never outlives the process that started it.

    python -m forebay.workers.parent_watch MODULE [ARGUMENT ...]

The lifeline is standard input: a pipe whose other end the starter holds and never writes to. When the starter goes,
however it goes (SIGKILL included), the kernel closes that end, and the process kills its whole group. The parent's id
is watched too, for the case that somebody forked from the starter still holds the pipe.

Not PR_SET_PDEATHSIG: that fires when the starting *thread* ends, and demos and tests start processes from threads.

It must be started as the leader of a process group (forebay_demo.child_process does), so that its own children go too.
"""

import os
import runpy
import select
import signal
import sys
import threading

_LOOK_AT_PARENT_EVERY = 1000  # milliseconds; only matters when the pipe is still held by somebody else


def exit_with_parent(parent: int) -> None:
    """Die, with the whole process group, as soon as standard input ends or `parent` is no longer our parent."""
    # Taken before the module runs: eventlet removes select.poll when it patches the standard library.
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)

    def wait() -> None:
        while os.getppid() == parent:
            if poll.poll(_LOOK_AT_PARENT_EVERY) and not os.read(0, 4096):
                break
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def main() -> None:
    module, *arguments = sys.argv[1:]
    exit_with_parent(os.getppid())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
