"""Clients that write checkpoints, one at a time and whenever they are told, by client_scripts/checkpoint_writer.py."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.errors import UnexpectedResponse
from benchmarks.origins.origin import BUCKET
from benchmarks.processes.client_scripts import TORCH_PYTHON, clean_environment, script_command
from benchmarks.run_sizes import MIB
from compat import host_names

_WRITER: Final = "checkpoint_writer.py"
_TORCH: Final = frozenset({"torch", "dcp", "oss"})
_MODULES: Final = {"torch": "s3torchconnector", "dcp": "s3torchconnector.dcp", "oss": "osstorchconnector"}
_NAMED: Final = "oss"
"""Speaks to BUCKET.ENDPOINT alone, and so needs names."""
CREDENTIALS: Final = '[[auth.keys]]\nid = "writer"\nsecret = "writer-secret"\n'
"""The clients', as TOML."""


class CheckpointWay(NamedTuple):
    """A client, and the bytes that a checkpoint of its has."""

    way: str
    size: int
    ranks: int = 1

    @property
    def title(self) -> str:
        size = f"{self.size // MIB} MiB"
        return {
            "put": f"boto3 put_object, {size}",
            "upload": f"boto3 upload_file, {size}",
            "ranks": f"{self.ranks} ranks, upload_file, {size} in all",
            "torch": f"torch.save by s3torchconnector, {size}",
            "dcp": f"DCP save by s3torchconnector, {size}",
            "oss": f"torch.save by osstorchconnector, {size}",
        }[self.way]

    @property
    def missing(self) -> str | None:
        """Why it can't be run here; None: it can."""
        if self.way not in _TORCH:
            return None
        module = _MODULES[self.way]
        if not TORCH_PYTHON.exists():
            return f"{module} is not installed (`make clients-torch`)"
        if self.way == _NAMED and (reason := host_names.missing()) is not None:
            return reason
        ran = subprocess.run([str(TORCH_PYTHON), "-c", f"import {module}"], capture_output=True, text=True, check=False)
        return None if ran.returncode == 0 else f"{module} can't be imported: {ran.stderr.strip().splitlines()[-1]}"

    @property
    def reaches_origin(self) -> bool:
        """Whether the origin of the benchmarks, which speaks S3, understands it."""
        return self.way != _NAMED


class Written(NamedTuple):
    """A checkpoint that was acknowledged."""

    seconds: float
    cpu: float
    """Seconds of a core that the client used for it, in all of its processes."""


class CheckpointWriter:
    """A running client."""

    def __init__(self, process: subprocess.Popen[str], log: Path, host: str) -> None:
        self._process, self._log, self._host = process, log, host

    def upload(self, port: int, key: str) -> Written:
        """Writes a checkpoint to whoever listens at a port of loopback."""
        return self._write({"endpoint": f"http://{self._host}:{port}", "key": key})

    def store(self, directory: Path) -> Written:
        """Writes the same bytes to files of a directory, synced."""
        return self._write({"directory": str(directory)})

    def _write(self, where: dict[str, str]) -> Written:
        seconds, cpu = self._answer(json.dumps(where)).split()
        return Written(float(seconds), float(cpu))

    def ready(self) -> None:
        self._answer("")

    def _answer(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if line:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise UnexpectedResponse(f"{_WRITER} ended: {self._log.read_text()[-2000:]}")
        return answer


@contextmanager
def running_writer(way: CheckpointWay, log: Path) -> Iterator[CheckpointWriter]:
    """Ready to write."""
    python = TORCH_PYTHON if way.way in _TORCH else Path(sys.executable)
    parameters = {"bucket": BUCKET, "way": way.way, "size": way.size, "ranks": way.ranks}
    command, host = script_command(_WRITER, parameters, python), "127.0.0.1"
    if way.way == _NAMED:
        host = host_names.DOMAIN
        command = host_names.with_names(command, (host, f"{BUCKET}.{host}"), log.parent)
    with (
        log.open("a") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=clean_environment()
        ) as process,
    ):
        try:
            writer = CheckpointWriter(process, log, host)
            writer.ready()
            yield writer
        finally:
            process.terminate()
