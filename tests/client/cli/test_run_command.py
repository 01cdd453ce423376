"""`forebay run`: what the program is started with."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from forebay_client.cli.command_context import process_context
from forebay_client.cli.command_line import run_command_line
from forebay_client.cli.run_command import hook_folder, hooked_environment, run_program


class Executions:
    """Keeps what would have been executed."""

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error
        self.calls: list[tuple[str, list[str], Mapping[str, str]]] = []

    def __call__(self, file: str, arguments: list[str], environ: Mapping[str, str]) -> None:
        self.calls.append((file, arguments, environ))
        if self.error is not None:
            raise self.error


def test_the_program_finds_the_hook_first() -> None:
    environ = hooked_environment({"PYTHONPATH": "/own", "PATH": "/bin"}, None, None)
    assert environ == {"PATH": "/bin", "PYTHONPATH": f"{hook_folder()}{os.pathsep}/own"}
    assert (hook_folder() / "sitecustomize.py").is_file()


def test_the_options_are_passed_on() -> None:
    environ = hooked_environment({}, "http://127.0.0.1:9000", "sweep-7")
    assert (environ["AWS_ENDPOINT_URL"], environ["FOREBAY_JOB"]) == ("http://127.0.0.1:9000", "sweep-7")


def test_the_program_takes_over() -> None:
    executed = Executions()
    run_program(process_context(), ["--", "python", "train.py", "--epochs", "3"], None, None, executed)
    assert executed.calls[0][:2] == ("python", ["python", "train.py", "--epochs", "3"])


@pytest.mark.parametrize(
    ("error", "code"), [(FileNotFoundError(2, "no such file"), 127), (PermissionError(13, "no"), 126)]
)
def test_a_program_that_is_not_there_has_a_shells_code(error: OSError, code: int) -> None:
    assert run_program(process_context(), ["nothing"], None, None, Executions(error)) == code


@pytest.mark.parametrize("arguments", [(), ("--endpoint", "127.0.0.1:9000", "python", "/none/train.py")])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run_command_line(["run", *arguments]) == 2


def test_the_options_end_where_the_program_begins(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os, sys; print(sys.argv[1:], os.environ['FOREBAY_JOB'])")
    command = [
        sys.executable,
        "-m",
        "forebay_client.cli.main",
        "run",
        "--name",
        "x",
        sys.executable,
        str(script),
        "--name",
        "y",
    ]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, env={**os.environ, **path}, capture_output=True, text=True, check=True)
    assert ran.stdout == "['--name', 'y'] x\n"
    assert ran.stderr == ""
