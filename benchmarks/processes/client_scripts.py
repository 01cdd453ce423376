"""Runs the scripts of benchmarks/client_scripts, each by the Python that has its client."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import ROOT
from benchmarks.errors import UnexpectedResponse

TORCH_PYTHON: Final = ROOT / ".clients" / "torch" / "bin" / "python"
"""Has PyTorch and the clients that need it, once `make clients-torch` has installed them."""
_SCRIPTS: Final = ROOT / "benchmarks" / "client_scripts"


def require(python: Path) -> None:
    """Raises UnexpectedResponse if there is no such Python."""
    if not python.exists():
        raise UnexpectedResponse(f"{python} is not there: make clients-torch")


def script_command(script: str, parameters: Mapping[str, Any], python: Path = Path(sys.executable)) -> list[str]:
    """Runs a script, by its file's name. Its one argument is its parameters as JSON."""
    return [str(python), str(_SCRIPTS / script), json.dumps(parameters)]


def clean_environment() -> dict[str, str]:
    """Ours, without what it says of the user's own buckets."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


def script_output(
    script: str, parameters: Mapping[str, Any], patience: float, *, python: Path = Path(sys.executable)
) -> Any:
    """The JSON that a script prints, which has `patience` seconds. Raises UnexpectedResponse if it fails."""
    command = script_command(script, parameters, python)
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=patience, env=clean_environment(), check=False
    )
    if ran.returncode != 0:
        raise UnexpectedResponse(f"{script} {parameters}: {ran.stderr[-2000:]}")
    return json.loads(ran.stdout)
