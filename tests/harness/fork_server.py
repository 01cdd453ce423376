"""A server of processes that are to be killed: each is forked from one that has everything imported
(harness.crash_worker), which takes a hundredth of the time of a new interpreter.

    async with fork_server(log) as server:
        process = await server.fork({...})
        process.kill()
        await process.wait_exit()
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from forebay.core.task_registry import TaskRegistry


class ForkedProcess:
    """A process of the server. Its end is seen at once, also by those that are no children of this one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.admin_port = 0
        """Set before `port` returns, where the process names it."""
        self._exited = asyncio.Event()
        self._port: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._set_exited()
        else:
            asyncio.get_running_loop().add_reader(self._fd, self._end)

    @property
    def is_alive(self) -> bool:
        return not self._exited.is_set()

    def kill(self) -> None:
        """Kills it, if it is there."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    async def wait_exit(self) -> None:
        await self._exited.wait()

    async def port(self) -> int | None:
        """Returns the port that it serves on; None: it has ended before it served."""
        return await asyncio.shield(self._port)

    def set_port(self, port: int, admin_port: int = 0) -> None:
        """It serves."""
        self.admin_port = admin_port
        if not self._port.done():
            self._port.set_result(port)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._set_exited()

    def _set_exited(self) -> None:
        self._exited.set()
        if not self._port.done():
            self._port.set_result(None)


class ForkServer:
    """See the module. Made by `fork_server`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._lines = process.stdin, process.stdout
        self._lock = asyncio.Lock()
        self._forked: asyncio.Queue[ForkedProcess] = asyncio.Queue()
        self._processes: dict[int, ForkedProcess] = {}

    async def fork(self, order: Mapping[str, Any]) -> ForkedProcess:
        async with self._lock:
            self._orders.write(json.dumps(order).encode() + b"\n")
            return await self._forked.get()

    async def read_lines(self) -> None:
        """Reads what the server and its processes say, until it ends."""
        while line := await self._lines.readline():
            word, pid, *port = line.split()
            if word == b"forked":
                process = self._processes[int(pid)] = ForkedProcess(int(pid))
                self._forked.put_nowait(process)
            else:
                self._processes[int(pid)].set_port(*map(int, port))

    async def close(self) -> None:
        """Kills all processes. One that a failed start forks meanwhile ends with the server."""
        for process in list(self._processes.values()):
            process.kill()
            await process.wait_exit()
        self._orders.close()


@asynccontextmanager
async def fork_server(log: Path) -> AsyncIterator[ForkServer]:
    """`log`: gets what the processes log."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "harness.crash_worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        server = ForkServer(process)
        reading = TaskRegistry().spawn(server.read_lines(), "read what the fork server says")
        try:
            yield server
        finally:
            await server.close()
            await reading
            await process.wait()
