"""Processes of ours without the start of an interpreter: each is forked from one that has everything imported, and runs
the same `main` as `python -m MODULE` does. The interpreter and the imports are some three quarters of a second of CPU,
which is most of what a test of a real process costs.

    process = await start_forked("forebay.workers.worker_main", [str(directory), "0", "2", group], stdin=stdin)
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0

The process is what the real start makes: a process group of its own, its own descriptors, environment and folder, and
an end with ours (forebay.workers.parent_watch). Only a child can be waited for, so the server does that, and writes
"PID\\n" and "EXIT CODE\\n" to a pipe of the process.

`python -m harness.forked_process FD` is the server, one for each process of pytest. It has no thread and no event loop.
"""

import asyncio
import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_MAX_ORDER: Final = 128 << 10
"""Bytes of an order."""
_MAX_FDS: Final = 16
_OUT_OF_THE_WAY: Final = 200
"""The first descriptor to which a child moves those that it was sent, before each gets its number."""


class ForkedProcess:
    """A process of the server: what is used of asyncio.subprocess.Process. `stdin`: a descriptor, closed with it."""

    def __init__(self, status: int, stdin: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fds = (status, stdin)
        self._lines = b""
        self.started: asyncio.Future[int] = self._loop.create_future()
        self._exited: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(status, self._read)

    @property
    def pid(self) -> int:
        return self.started.result()

    @property
    def returncode(self) -> int | None:
        return self._exited.result() if self._exited.done() else None

    def send_signal(self, number: int) -> None:
        """Signals the process, if it is there."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # its end has not been read yet
                os.kill(self.pid, number)

    async def wait(self) -> int:
        return await asyncio.shield(self._exited)

    def _read(self) -> None:
        read = os.read(self._fds[0], 100)
        self._lines += read
        lines = self._lines.splitlines()
        if lines and not self.started.done():
            self.started.set_result(int(lines[0]))
        if read and len(lines) == 1:
            return
        self._loop.remove_reader(self._fds[0])
        for each in self._fds:
            os.close(each)
        if self.started.done():
            self._exited.set_result(int(lines[1]) if len(lines) > 1 else -signal.SIGKILL)
        else:
            self.started.set_exception(RuntimeError("the server of processes has ended"))


async def start_forked(
    module: str,
    arguments: Sequence[str],
    *,
    outputs: tuple[int, int] = (1, 2),
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    pass_fd: int | None = None,
) -> ForkedProcess:
    """`outputs`: descriptors that become its standard output and error. `environ`: all of its environment, else ours.
    `pass_fd`: the process has it under the same number."""
    order = {
        "module": module,
        "arguments": list(arguments),
        "environ": dict(os.environ if environ is None else environ),
        "directory": str(directory or Path.cwd()),
        "pass_fd": pass_fd,
    }
    message = json.dumps(order).encode()
    assert len(message) < _MAX_ORDER, "more than a message has room for: start it with an interpreter of its own"
    stdin, keeps_stdin = os.pipe()
    status, writes_status = os.pipe()
    process = ForkedProcess(status, keeps_stdin)
    try:
        passed = () if pass_fd is None else (pass_fd,)
        socket.send_fds(_server()[0], [message], [writes_status, stdin, *outputs, *passed])
    finally:
        os.close(stdin)
        os.close(writes_status)
    await process.started
    return process


def end_server() -> None:
    """Ends the server of this process, if there is one."""
    if _server.cache_info().currsize:
        orders, process = _server()
        orders.close()
        process.wait()
        _server.cache_clear()


@cache
def _server() -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    return ours, process


class _Order(NamedTuple):
    """What a child is to run."""

    module: str
    arguments: list[str]


class _Child(NamedTuple):
    """A child of the server: its pidfd, and the pipe that gets its exit code."""

    pid: int
    status: int


def _serve(orders: socket.socket) -> _Order | None:
    """Forks a child for each order. Returns in each child, what it is to run; None: the orders have ended."""
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    children: dict[int, _Child] = {}
    while True:
        for fd, _ in poll.poll():
            if (child := children.pop(fd, None)) is not None:
                poll.unregister(fd)
                os.close(fd)
                code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
                with contextlib.suppress(BrokenPipeError):  # whoever wanted to know has ended
                    os.write(child.status, b"%d\n" % code)
                os.close(child.status)
                continue
            message, fds, _, _ = socket.recv_fds(orders, _MAX_ORDER, _MAX_FDS)
            if not message:
                return None
            order = json.loads(message)
            if (pid := os.fork()) == 0:
                _become(order, fds[1:])
                return _Order(order["module"], order["arguments"])
            with contextlib.suppress(ProcessLookupError, PermissionError):  # so does the child, as who is sooner
                os.setpgid(pid, pid)
            for each in fds[1:]:
                os.close(each)
            watched = os.pidfd_open(pid)
            children[watched] = _Child(pid, fds[0])
            poll.register(watched, select.POLLIN)
            os.write(fds[0], b"%d\n" % pid)


def _become(order: Mapping[str, object], fds: Sequence[int]) -> None:
    os.setpgid(0, 0)
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, _OUT_OF_THE_WAY) for each in fds]
    os.closerange(3, _OUT_OF_THE_WAY)
    pass_fd = order["pass_fd"]
    for source, number in zip(moved, [0, 1, 2, *([pass_fd] if isinstance(pass_fd, int) else [])], strict=True):
        os.dup2(source, number)
        os.close(source)
    # As the interpreter opens them: what is behind the descriptors is another file than it was.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(str(order["directory"]))
    os.environ.clear()
    os.environ.update(order["environ"])  # type: ignore[call-overload] # as start_forked makes it


def main() -> int:
    """The server, and then each child."""
    from harness.imported_modules import import_forebay  # noqa: PLC0415 # only the server imports what is to be forked

    gc.disable()
    import_forebay()
    importlib.import_module("forebay_client.cli.main")
    gc.freeze()
    order = _serve(socket.socket(fileno=int(sys.argv[1])))
    if order is None:
        return 0
    gc.enable()
    from forebay.workers.parent_watch import exit_with_parent  # noqa: PLC0415 # as above

    exit_with_parent(os.getppid())
    sys.argv = [order.module, *order.arguments]
    code = importlib.import_module(order.module).main()
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
