"""A run that skips tests says why, and how they are had."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import INSTALLS_ALL

ROOT = Path(__file__).parents[2]


def test_a_skipped_test_is_listed_with_its_reason() -> None:
    command = (sys.executable, "-m", "pytest", "tests/security/test_browsers.py")
    environ = {**os.environ, "PATH": os.devnull}  # so no browser is found
    run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True, timeout=120)
    assert "chromium is not installed (make browser)" in run.stdout
    assert f"3 skipped: `{INSTALLS_ALL}`" in run.stdout


def test_continuous_integration_installs_all() -> None:
    assert f"\n{INSTALLS_ALL}\n" in (ROOT / ".ci" / "run").read_text()
