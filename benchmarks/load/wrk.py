"""wrk, from Debian: the load generator for small bodies.

It reads 8 KiB at a time: an answer of 8 MiB costs it five times the CPU that it costs nginx, and already at 128 KiB
benchmarks.load.generator needs less.
"""

import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.errors import UnexpectedResponse
from benchmarks.load.load import Load

_SCRIPT: Final = Path(__file__).with_name("wrk.lua")
_MISSES: Final = Path(__file__).with_name("misses.lua")


def find_wrk() -> str | None:
    """Its path, or None if it is not installed."""
    return shutil.which("wrk")


def wrk_version(path: str) -> str:
    """`wrk 4.1.0-3+b2`, or the like."""
    # It prints its version with its usage, and calls that a failure.
    lines = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    return lines[0].partition(" [")[0].replace("debian/", "") if lines else "wrk"


def run_wrk(
    path: str, port: int, requests: Sequence[bytes], connections: int, seconds: float, together: int = 1
) -> Load:
    """One round. `together`: requests that a connection sends at once, before it has any of their answers. WrongAnswer
    if anything but whole successes came back."""
    with tempfile.NamedTemporaryFile(prefix="forebay-bench-") as file:
        batches = (requests[start : start + together] for start in range(0, len(requests), together))
        file.write(b"".join(b"".join(batch) + b"\0" for batch in batches if len(batch) == together))
        file.flush()
        command = [path, "--threads", "1", "--connections", str(connections), "--timeout", "30s"]
        command += ["--duration", f"{math.ceil(seconds)}s", "--script", str(_SCRIPT)]
        ran = subprocess.run(
            [*command, f"http://127.0.0.1:{port}/", "--", file.name], capture_output=True, text=True, check=False
        )
    if ran.returncode:
        raise UnexpectedResponse(f"wrk ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    return parsed(ran.stdout)


def run_wrk_misses(path: str, port: int, prefix: str, connections: int, seconds: float) -> Load:
    """One round of requests for objects that nobody has asked for, below `prefix`. WrongAnswer as for `run_wrk`."""
    command = [path, "--threads", "1", "--connections", str(connections), "--timeout", "30s"]
    command += ["--duration", f"{math.ceil(seconds)}s", "--script", str(_MISSES)]
    ran = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/", "--", prefix], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise UnexpectedResponse(f"wrk ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    return parsed(ran.stdout)


def parsed(output: str) -> Load:
    """What the script's last line says."""
    told = json.loads(output.splitlines()[-1])
    if told["refused"] or told["broken"]:
        raise UnexpectedResponse(f"{told['refused']} answers were refusals, {told['broken']} requests broke")
    return Load(told["requests"], told["micros"] / 1e6, told["bytes"], told["p50"] / 1e6, told["p99"] / 1e6)
