"""Installs the clients of the table: `python -m compat.installing [group]`, what `make clients` runs.

Each gets an environment of its own below .clients/, several at a time: by uv, which takes a tenth of pip's CPU, where
it is installed beside Python, else by pip. What is installed already, with the same pins, is left alone. A client that
can't be had here (no npm, not root) is told and left out, and its test is skipped with a reason. The exit code is 1
only when not one could be had, which is never the fault of a client.
"""

import os
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final

from compat.clients import HOME, Client, load_clients

AT_ONCE: Final = 3


class ClientUnavailable(Exception):
    """This client can't be installed here; the text says why."""


def install(client: Client) -> str:
    """Installs one. Returns a line that says what came of it."""
    begun = monotonic()
    if client.missing() is None:
        return f"{client.place}: there already"
    shutil.rmtree(client.home, ignore_errors=True)
    client.home.mkdir(parents=True)
    try:
        match client.source:
            case "pip":
                _pip(client)
            case "npm":
                _npm(client)
            case "debian":
                _debian(client)
    except ClientUnavailable as reason:
        shutil.rmtree(client.home, ignore_errors=True)
        return f"{client.place}: left out: {reason}"
    client.mark.write_text(client.pins, encoding="utf-8")
    return f"{client.place}: installed in {monotonic() - begun:.0f} s"


def _pip(client: Client) -> None:
    # Without pip inside: the pip that runs this installs into it, which saves seconds and megabytes a client.
    venv.create(client.home, with_pip=False, symlinks=True)
    python = str(client.home / "bin" / "python")
    uv = Path(sys.executable).with_name("uv")
    if uv.exists() and client.needs is None:  # pip's configuration, which uv does not read, may name a smaller PyTorch
        with suppress(ClientUnavailable):
            _run([str(uv), "pip", "install", "--quiet", "--python", python, *client.packages])
            return
    options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-compile"]
    _run([sys.executable, "-m", "pip", "--python", python, "install", *options, *client.packages])


def _npm(client: Client) -> None:
    if shutil.which("npm") is None:
        raise ClientUnavailable("npm is not installed")
    options = ["--silent", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", str(client.home)]
    _run(["npm", "install", *options, *client.packages])


def _debian(client: Client) -> None:
    """From the system's own packages, which are shared: nothing is installed that is there already."""
    if shutil.which(client.packages[0]) is not None:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ClientUnavailable(f"needs root and apt-get: apt-get install {' '.join(client.packages)}")
    _run([str(HOME.parent / ".ci" / "apt-install"), *client.packages])


def _run(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        told = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
        raise ClientUnavailable(f"{command[0]} failed: {told[-1] if told else ran.returncode}")


def main(groups: list[str]) -> int:
    """Install the clients of no group, and those of `groups`."""
    HOME.mkdir(exist_ok=True)
    (HOME / ".gitignore").write_text("*\n", encoding="utf-8")  # nor do linters that obey git look at it
    named = [client for client in load_clients() if client.needs is None or client.needs in groups]
    wanted = list({client.place: client for client in named}.values())
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for line in threads.map(install, wanted):
            print(line, flush=True)  # noqa: T201 # the command's output
    return int(not any(client.missing() is None for client in wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
