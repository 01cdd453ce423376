"""Processes of a benchmark: modules of ours, and programs from elsewhere, none of which outlives us.

A foreign program runs below a module of ours (benchmarks.foreground), so that it hangs on the same lifeline.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import ROOT
from benchmarks.http_client import UnexpectedResponse
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
    return module("benchmarks.foreground", *command, log=log, announces=False)


def script_output(
    script: Path, parameters: Mapping[str, Any], patience: float, *, python: Path = Path(sys.executable)
) -> Any:
    """The JSON that a client's script prints, which knows nothing of us, in a process of its own. Raises
    UnexpectedResponse if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [str(python), str(script), json.dumps(parameters)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=patience, env=clean, check=False)
    if ran.returncode != 0:
        raise UnexpectedResponse(f"{script.name} {parameters}: {ran.stderr[-2000:]}")
    return json.loads(ran.stdout)


def ready_line(child: ChildProcess) -> str:
    """What a child prints when it is ready."""
    return child.first_line(_START_SECONDS).strip()
