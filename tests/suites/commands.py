"""Installing suites, below .clients/suites, and running what they bring: plain commands, which fail loudly.

What is installed has a mark with its pins; other pins install it anew.
"""

import os
import shutil
import subprocess
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

HOME: Final = Path(".clients/suites").absolute()
PASSED: Final = "passed"
_PIP: Final = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def installed(name: str, pins: str, install: Callable[[Path], None]) -> Path:
    """Where it is. `install` fills the directory it is given, if that was not done with these pins already."""
    home = HOME / name
    mark = home / "installed"
    if not mark.is_file() or mark.read_text() != pins:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        install(home)
        mark.write_text(pins)
    return home


def source_distribution(home: Path, pin: str, needed: Sequence[str] = ()) -> None:
    """Unpacks the sdist of `pin`, NAME==VERSION, into `home`; beside it an environment, `venv`, with that package, what
    it depends on and what is `needed` to run its tests."""
    python = str(home / "venv/bin/python")
    venv.create(home / "venv", with_pip=True)
    run(python, *_PIP, "install", "setuptools<81", "wheel", "hatchling", pin, *needed)
    unbuilt = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:")
    run(python, *_PIP, "download", *unbuilt, "--dest", str(home), pin)
    (archive,) = home.glob("*.tar.gz")
    extract(archive, home)


def pytest_outcomes(python: Path, place: Path, report: Path, environ: Mapping[str, str], *more: str) -> dict[str, str]:
    """What became of each case that pytest finds in `place` with the arguments `more`."""
    options = (
        "-q",
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
        "--timeout",
        "120",
        f"--rootdir={place}",
        "-c",
        os.devnull,
        f"--junitxml={report}",
    )
    command = (str(python), "-m", "pytest", *options, *more)
    with report.with_suffix(".out").open("wb") as out:
        subprocess.run(command, cwd=place, env={**os.environ, **environ}, stdout=out, stderr=out, check=False)
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        tags = {child.tag for child in case}
        outcome = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else PASSED
        if found.get(name) != "failed":  # a case with subtests is there several times
            found[name] = outcome
    return found


def extract(archive: Path, home: Path) -> None:
    """By tar itself: tarfile has its filter against paths that lead elsewhere from Python 3.11.4 on."""
    run("tar", "-xf", str(archive), "-C", str(home))


def run(*command: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
    subprocess.run(command, check=True, cwd=cwd, env=environ)
