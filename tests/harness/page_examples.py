"""Python examples of a page, run in a process of their own with a Forebay that the environment names."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from harness.rig import TRAINER, Rig

_ROOT: Final = Path(__file__).parents[2]
_PYTHON: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def run_examples(page: str, rig: Rig, *, before: str = "", after: str = "") -> str:
    """Runs `before`, the examples of `docs/<page>` one after the other, and `after`; returns what they printed."""
    examples = _PYTHON.findall((_ROOT / "docs" / page).read_text())
    environment = {
        "AWS_ENDPOINT_URL": rig.endpoint,
        "AWS_ACCESS_KEY_ID": TRAINER.access,
        "AWS_SECRET_ACCESS_KEY": TRAINER.secret,
        "AWS_CONFIG_FILE": "/none",
        "AWS_SHARED_CREDENTIALS_FILE": "/none",
        "PYTHONPATH": f"{_ROOT / 'client'}:{_ROOT / 'proxy'}",
    }
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", "\n".join([before, *examples, after])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout
