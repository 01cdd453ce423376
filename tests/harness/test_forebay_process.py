"""`forebay` as a real process, for tests: its end comes when it comes."""

import os
import signal
from pathlib import Path

from harness.forebay_process import forebay_process


async def test_a_process_that_has_just_ended_gets_no_signal(tmp_path: Path) -> None:
    """The server of processes has waited for it, and the loop has not read so yet."""
    async with forebay_process("version", "--help", directory=tmp_path) as process:
        while os.access(f"/proc/{process.pid}", os.F_OK):
            pass
        process.signal(signal.SIGTERM)
    assert await process.wait_exit() == 0
