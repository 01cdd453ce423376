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
    """Returns the path of wrk; None: it is not installed."""
    return shutil.which("wrk")


def wrk_version(path: str) -> str:
    """`wrk 4.1.0-3+b2`, or the like."""
    # It prints its version with its usage, and calls that a failure.
    lines = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    return lines[0].partition(" [")[0].replace("debian/", "") if lines else "wrk"


def run_wrk(
    path: str, port: int, requests: Sequence[bytes], connections: int, seconds: float, together: int = 1
) -> Load:
    """Runs one round. `together`: requests that a connection sends at once, before it has any of their responses.
    Raises UnexpectedResponse for any response but a whole success."""
    with tempfile.NamedTemporaryFile(prefix="forebay-bench-") as file:
        batches = (requests[start : start + together] for start in range(0, len(requests), together))
        file.write(b"".join(b"".join(batch) + b"\0" for batch in batches if len(batch) == together))
        file.flush()
        return _run(path, port, _SCRIPT, file.name, connections, seconds)


def run_wrk_misses(path: str, port: int, prefix: str, connections: int, seconds: float) -> Load:
    """Runs one round of requests for new objects, below `prefix`. Raises UnexpectedResponse as `run_wrk` does."""
    return _run(path, port, _MISSES, prefix, connections, seconds)


def _run(path: str, port: int, script: Path, argument: str, connections: int, seconds: float) -> Load:
    command = [path, "--threads", "1", "--connections", str(connections), "--timeout", "30s"]
    command += ["--duration", f"{math.ceil(seconds)}s", "--script", str(script)]
    ran = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/", "--", argument], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise UnexpectedResponse(f"wrk ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    return parsed(ran.stdout)


def parsed(output: str) -> Load:
    """Returns the result in the script's last line. Raises UnexpectedResponse."""
    result = json.loads(output.splitlines()[-1])
    if result["refused"] or result["broken"]:
        raise UnexpectedResponse(f"{result['refused']} answers were refusals, {result['broken']} requests broke")
    return Load(result["requests"], result["micros"] / 1e6, result["bytes"], result["p50"] / 1e6, result["p99"] / 1e6)
