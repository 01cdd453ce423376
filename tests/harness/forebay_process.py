"""`forebay` as a real process, as a user or an init system starts it: its output, its signals, its exit code.

    async with forebay_process("serve", "--config", str(file), directory=tmp_path) as process:
        await process.wait_for_output("serving")
        process.signal(signal.SIGTERM)
        assert await process.wait_exit() == 0

The process ends with its parent (forebay.workers.parent_watch), so it never outlives the test run.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from forebay.workers.worker_process import RunningProcess
from harness.forked_process import start_forked

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join(str(ROOT / name) for name in ("proxy", "client", "tests"))
"""Where a process of ours finds its modules."""
_MODULE = "forebay_client.cli.main"
_PATIENCE = 60.0  # seconds; a process of ours starts in one, on a machine that is not loaded


class ForebayProcess:
    """A running `forebay`. `output` is everything read so far from both streams, in the order of reading."""

    def __init__(self, process: RunningProcess, *streams: asyncio.StreamReader | None) -> None:
        """`streams`: its standard output and error."""
        self._process = process
        self._streams = [each for each in streams if each is not None]
        self._news = asyncio.Condition()
        self._open = 2
        self.output = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    async def read_output(self) -> None:
        async with asyncio.TaskGroup() as group:
            for each in self._streams:
                group.create_task(self._read(each))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            async with self._news:
                self.output += line.decode()
                self._news.notify_all()
        async with self._news:
            self._open -= 1
            self._news.notify_all()

    async def wait_for_output(self, text: str, times: int = 1) -> None:
        """Waits until the output contains `text` at least `times` times."""
        async with asyncio.timeout(_PATIENCE), self._news:
            await self._news.wait_for(lambda: self.output.count(text) >= times or not self._open)
        assert self.output.count(text) >= times, self.output

    @property
    def endpoint(self) -> str:
        """Its URL, once it serves."""
        [endpoint] = re.findall(r"serving \S+ on (http://127\.0\.0\.1:[0-9]+)", self.output)
        return str(endpoint)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait_exit(self) -> int:
        """Waits for the exit and the end of the output. Returns the exit code."""
        async with asyncio.timeout(_PATIENCE), self._news:
            await self._news.wait_for(lambda: not self._open)
        return await self._process.wait()

    async def kill(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):  # its end has not been read yet
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def forebay_process(
    *arguments: str,
    directory: Path,
    environ: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    open_files: int | None = None,
    is_forked: bool = True,
) -> AsyncIterator[ForebayProcess]:
    """`forebay` with `arguments` in `directory`, and nothing of our own environment's settings. `before`: a module and
    its arguments that run it instead of the interpreter alone. `open_files`: its limit, None for our own.
    `is_forked`: without the start of an interpreter (harness.forked_process)."""
    limited = () if open_files is None else ("/bin/sh", "-c", 'ulimit -n "$0" && exec "$@"', str(open_files))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY_", "AWS_"))}
    environment = {**inherited, "PYTHONPATH": PATHS, "XDG_STATE_HOME": str(directory / "state"), **(environ or {})}
    if is_forked and not before and not limited:
        ours = await _fork(arguments, directory, environment)
    else:
        module = (*(before or (_MODULE,)), *arguments)
        process = await asyncio.create_subprocess_exec(
            *(*limited, sys.executable, "-m", "forebay.workers.parent_watch", *module),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
        ours = ForebayProcess(process, process.stdout, process.stderr)
    try:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(ours.read_output())
            try:
                yield ours
            finally:
                await ours.kill()
                await listening
    except* AssertionError as failed:
        raise failed.exceptions[0] from None  # a test reads better without the group


async def _fork(arguments: Sequence[str], directory: Path, environ: Mapping[str, str]) -> ForebayProcess:
    pipes = [os.pipe() for _ in range(2)]
    try:
        outputs = (pipes[0][1], pipes[1][1])
        process = await start_forked(_MODULE, arguments, outputs=outputs, environ=environ, directory=directory)
    finally:
        for _, written in pipes:
            os.close(written)
    loop, streams = asyncio.get_running_loop(), []
    for read, _ in pipes:
        stream = asyncio.StreamReader()
        await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, stream), os.fdopen(read, "rb"))
        streams.append(stream)
    return ForebayProcess(process, *streams)


async def run_forebay(
    *arguments: str, directory: Path, environ: Mapping[str, str] | None = None, is_forked: bool = True
) -> tuple[int, str]:
    """Runs `forebay` to its end. Returns the exit code and the output."""
    async with forebay_process(*arguments, directory=directory, environ=environ, is_forked=is_forked) as process:
        return await process.wait_exit(), process.output
