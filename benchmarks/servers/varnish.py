"""Varnish with malloc storage, unprivileged, from benchmarks/servers/varnish.vcl, in a directory of its own."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.load.signed_requests import unsigned
from benchmarks.origins.origin import Origin
from benchmarks.processes import cores
from benchmarks.processes.processes import program
from benchmarks.servers.nginx import wait_for
from benchmarks.servers.peer import Peer
from forebay_demo.free_ports import free_ports

_TEMPLATE: Final = Path(__file__).with_name("varnish.vcl")
# One pool, as it has one core; threads enough for every connection; answers of any size in one piece.
_PARAMETERS: Final = {
    "thread_pools": "1",
    "thread_pool_min": "200",
    "thread_pool_max": "500",
    "timeout_idle": "3600",
    "send_timeout": "3600",
}


def find_varnish() -> str | None:
    """Its path, or None if it is not installed. Debian has it where ordinary users don't look."""
    return shutil.which("varnishd") or shutil.which("varnishd", path="/usr/sbin:/usr/local/sbin")


def varnish_version(path: str) -> str:
    """`varnish-7.1.1`, or the like."""
    told = subprocess.run([path, "-V"], capture_output=True, text=True, check=False)
    return (told.stderr + told.stdout).partition("(")[2].partition(" ")[0] or "varnish"


@contextmanager
def running_varnish(path: str, origin: Origin, directory: Path) -> Iterator[Peer]:
    """On the servers' core, its storage empty."""
    directory.mkdir()
    [port] = free_ports(1)
    vcl, log = directory / "varnish.vcl", directory / "varnish.log"
    vcl.write_text(_TEMPLATE.read_text().replace("@ORIGIN@", str(origin.port)))
    options = [option for name, value in _PARAMETERS.items() for option in ("-p", f"{name}={value}")]
    with cores.pinned(cores.SERVER):
        child = program(
            *(path, "-F", "-j", "none", "-n", str(directory), "-f", str(vcl)),
            *("-a", f"127.0.0.1:{port}", "-s", "malloc,4g", *options),
            log=log,
        )
    with child:
        wait_for(child, port)
        yield Peer("Varnish", port, child.pid, "x-cache-status", "HIT", lambda targets: unsigned(port, targets), log)
