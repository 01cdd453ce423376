"""nginx with `proxy_cache`, unprivileged, from benchmarks/servers/nginx.conf, in a directory of its own."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from benchmarks.load.signed_requests import unsigned
from benchmarks.origins.origin import Origin
from benchmarks.processes import cores
from benchmarks.processes.processes import program
from benchmarks.servers.peer import Peer
from forebay_demo.child_process import ChildProcess
from forebay_demo.free_ports import free_ports

_TEMPLATE: Final = Path(__file__).with_name("nginx.conf")
_ORIGIN: Final = _TEMPLATE.with_name("origin.conf")
_START_SECONDS: Final = 10.0


def find_nginx() -> str | None:
    """Its path, or None if it is not installed. Debian has it where ordinary users don't look."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def nginx_version(path: str) -> str:
    told = subprocess.run([path, "-v"], capture_output=True, text=True, check=False).stderr
    return told.rpartition(":")[2].strip() or "nginx"


@contextmanager
def running_nginx(
    path: str, origin: Origin, directory: Path, cache_size: int = 8 << 30, *, is_pinned: bool = True
) -> Iterator[Peer]:
    """One worker, its cache empty: on the servers' core, or wherever it likes if it is not pinned. `cache_size`: bytes
    that it may keep."""
    directory.mkdir()
    core = cores.SERVER if is_pinned else None
    with _running(path, directory, _TEMPLATE, origin.port, core, cache_size) as (child, port, log):
        yield Peer("nginx", port, child.pid, "x-cache-status", "HIT", lambda targets: unsigned(port, targets), log)


@contextmanager
def running_nginx_origin(path: str, directory: Path, size: int) -> Iterator[Origin]:
    """An origin on the load's core, in which every object of the bucket has the same `size` bytes."""
    directory.mkdir()
    (directory / "object").write_bytes(os.urandom(size))
    with _running(path, directory, _ORIGIN, 0, cores.LOAD, 0) as (_, port, _log):
        yield Origin(port, 0, {})


@contextmanager
def _running(
    path: str, directory: Path, template: Path, origin_port: int, core: int | None, cache_size: int
) -> Iterator[tuple[ChildProcess, int, Path]]:
    """The running process, its port and its log."""
    [port] = free_ports(1)
    config, log = directory / "nginx.conf", directory / "nginx.log"
    # Only a privileged master may choose its worker's user; the directory is closed to any other than ours.
    user = "user root root;" if os.geteuid() == 0 else ""
    text = template.read_text()
    values = {"USER": user, "DIRECTORY": directory, "ORIGIN": origin_port, "PORT": port, "SIZE": cache_size}
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    config.write_text(text)
    with cores.pinned(core) if core is not None else nullcontext():
        child = program(path, "-p", str(directory), "-c", str(config), "-e", "stderr", log=log)
    with child:
        wait_for(child, port)
        yield child, port, log


def wait_for(child: ChildProcess, port: int) -> None:
    """Until it listens."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if child.ended_within(0.02):
                raise child.failed("ended while starting") from None
            if time.monotonic() > deadline:
                raise child.failed("does not listen") from None
        else:
            return
