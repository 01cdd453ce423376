"""`forebay run PROGRAM ...`: runs a training script unchanged, with the order of its DataLoaders sent as plans.

The program takes the place of this process, with a folder in front of PYTHONPATH whose sitecustomize observes PyTorch's
DataLoader (forebay_client.run_hook). FOREBAY_HOOK=off in the environment turns that off.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from forebay_client import run_hook
from forebay_client.cli.command_context import CommandContext

Execute = Callable[[str, list[str], Mapping[str, str]], Any]


def run_program(
    context: CommandContext,
    program: Sequence[str],
    endpoint: str | None,
    name: str | None,
    execute: Execute = os.execvpe,
) -> int:
    """Replaces this process by `program`. Returns the exit code if it can't be started.

    `endpoint`: becomes AWS_ENDPOINT_URL. `name`: of the job, in the names of its plans."""
    screen = context.screen
    program = program[1:] if program[:1] == ["--"] else program
    if not program:
        screen.write_error("Say what to run: forebay run python train.py.")
        return 2
    try:
        execute(program[0], [*program], hooked_environment(context.environ, endpoint, name))
    except OSError as error:
        screen.write_error(f"{program[0]} can't be run: {error.strerror}.")
        return 127 if isinstance(error, FileNotFoundError) else 126
    return 0


def hooked_environment(environ: Mapping[str, str], endpoint: str | None, name: str | None) -> dict[str, str]:
    """The environment of the program."""
    paths = [str(hook_folder()), *filter(None, [environ.get("PYTHONPATH")])]
    hooked = {**environ, "PYTHONPATH": os.pathsep.join(paths)}
    if endpoint is not None:
        hooked["AWS_ENDPOINT_URL"] = endpoint
    if name is not None:
        hooked["FOREBAY_JOB"] = name
    return hooked


def hook_folder() -> Path:
    """The folder with the sitecustomize."""
    return Path(run_hook.__path__[0])
