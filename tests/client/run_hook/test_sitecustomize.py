"""The hook of `forebay run` in a Python of its own, with a stand-in for PyTorch."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from forebay_client.cli.run_command import hooked_environment

ROOT: Final = Path(__file__).parents[3]
LOADERS: Final = """
class DataLoader:
    @property
    def _index_sampler(self):
        return "plain"
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of a Python that finds a package `torch`, and another sitecustomize."""
    data = tmp_path / "torch" / "utils" / "data"
    data.mkdir(parents=True)
    for folder in (data, data.parent, data.parent.parent):
        (folder / "__init__.py").write_text("")
    (data / "dataloader.py").write_text(LOADERS)
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.hidden_has_run = __file__\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "client"), str(ROOT / "proxy")])
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY", "PYTHON"))}
    return hooked_environment({**plain, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}, None, None)


def printed(environ: dict[str, str], program: str) -> str:
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout.strip()


FIND: Final = "from torch.utils.data import dataloader; print(dataloader.DataLoader._index_sampler.fget.__module__)"


def test_loaders_are_observed_when_they_are_imported(environ: dict[str, str]) -> None:
    assert printed(environ, FIND) == "forebay_client.torch.loader_hook"


def test_a_python_without_the_client_library_says_so(environ: dict[str, str], tmp_path: Path) -> None:
    """As where `forebay` is installed in an environment of its own."""
    path = os.pathsep.join([environ["PYTHONPATH"].split(os.pathsep)[0], str(tmp_path)])
    command = [sys.executable, "-S", "-c", f"import sitecustomize; {FIND}"]
    ran = subprocess.run(command, env={**environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert ran.stderr == f"forebay run: no plans are sent: forebay_client is not installed for {sys.executable}\n"
    assert ran.stdout == "torch.utils.data.dataloader\n"


def test_one_variable_turns_it_off(environ: dict[str, str]) -> None:
    assert printed({**environ, "FOREBAY_HOOK": "off"}, FIND) == "torch.utils.data.dataloader"


def test_the_sitecustomize_that_it_hides_runs(environ: dict[str, str], tmp_path: Path) -> None:
    program = "import sys, sitecustomize; print(sys.hidden_has_run, sitecustomize.__file__)"
    hidden = str(tmp_path / "sitecustomize.py")
    assert printed(environ, program) == f"{hidden} {hidden}"


def test_nothing_is_imported_before_it_is_wanted(environ: dict[str, str]) -> None:
    program = "import sys; print([name for name in sys.modules if name.startswith(('torch', 'forebay'))])"
    assert printed(environ, program) == "[]"


def test_a_loader_that_fails_to_be_observed_runs_as_before(environ: dict[str, str]) -> None:
    # The stand-in's loader has no data set, and there is no real torch to preview a sampler with.
    program = "from torch.utils.data.dataloader import DataLoader; print(DataLoader()._index_sampler)"
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout == "plain\n"
    assert "is not observed" in ran.stderr
