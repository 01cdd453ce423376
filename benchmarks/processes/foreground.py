"""Runs a program and ends with it: `python -m benchmarks.processes.foreground PROGRAM ARGUMENT ...`.

Signals go to the whole process group, so the program hears SIGTERM by itself; this process only waits.
"""

import signal
import subprocess
import sys


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: None)
    return subprocess.call(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
