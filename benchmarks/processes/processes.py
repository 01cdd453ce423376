"""Processes of a benchmark: modules of ours, and programs from elsewhere, none of which outlives us.

A foreign program runs below a module of ours (benchmarks.processes.foreground), so that it hangs on the same lifeline.
"""

import os
from pathlib import Path
from typing import Final

from benchmarks import ROOT
from forebay_demo.child_process import ChildProcess

_START_SECONDS: Final = 60.0


def module(name: str, *arguments: str, log: Path, announces: bool = True) -> ChildProcess:
    """`python -m name arguments`, which finds the benchmarks and the test harness too."""
    # What the environment says of the user's own Forebay is not meant for the one that is measured.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("FOREBAY_")}
    return ChildProcess(
        name,
        *arguments,
        log=log,
        environment={**inherited, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        announces=announces,
    )


def program(*command: str, log: Path) -> ChildProcess:
    """A program that stays in the foreground and ends at SIGTERM."""
    return module("benchmarks.processes.foreground", *command, log=log, announces=False)


def ready_line(child: ChildProcess) -> str:
    """What a child prints when it is ready."""
    return child.first_line(_START_SECONDS).strip()
