"""A Forebay to be measured: `forebay serve`, from benchmarks/servers/forebay.toml, in a directory of its own."""

import compileall
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from benchmarks import ROOT
from benchmarks.load.http_client import KeepAliveConnection, TimedResponse
from benchmarks.load.signed_requests import Form, signed
from benchmarks.processes import cores
from benchmarks.processes.processes import module
from benchmarks.servers.peer import Peer
from benchmarks.servers.ssd_fill import state_dir
from forebay_demo.child_process import ChildProcess
from forebay_demo.forebay_server import write_private
from forebay_demo.free_ports import free_ports

TEMPLATE: Final = Path(__file__).with_name("forebay.toml")
_START_SECONDS: Final = 60.0
HIT_HEADER: Final = "x-forebay-cache"


def socket_template(directory: Path) -> Path:
    """The template with a Unix socket, `directory / forebay.sock`."""
    directory.mkdir(parents=True, exist_ok=True)
    template = directory / "with-socket.toml"
    socket = directory / "forebay.sock"
    template.write_text(TEMPLATE.read_text().replace("[server]", f'[server]\nsocket = "{socket}"', 1))
    return template


class Forebay:
    """One configuration and its directory, which outlives the process: start it again for a restart."""

    def __init__(
        self,
        directory: Path,
        origin_port: int,
        *,
        memory: str = "2GiB",
        ssd: str | None = None,
        access_log: str = "stdout",
        workers: int = 1,
        pinned: bool = False,
        rest: str = "",
        template: Path = TEMPLATE,
    ) -> None:
        """`memory`, `ssd`: sizes as in the configuration; None for no SSD tier. `access_log`, `workers`: as there, too.
        One worker runs on the servers' core, several wherever they like, or there if they are `pinned`. `rest`: more
        TOML, behind `template`."""
        _compile()
        self.workers = workers
        self._pinned = pinned or workers == 1
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self.log = directory, directory / "forebay.log"
        self.port, self.admin = free_ports(2)
        self.cache = directory / "ssd"
        tier = "" if ssd is None else f'[ssd]\npath = "{self.cache}"\nsize = "{ssd}"'
        text = template.read_text()
        for name, value in {
            "PORT": self.port,
            "ADMIN": self.admin,
            "ORIGIN": origin_port,
            "MEMORY": memory,
            "LOG": access_log,
            "WORKERS": workers,
            "SSD": tier,
            "STATE": state_dir(self.cache),
        }.items():
            text = text.replace(f"@{name}@", str(value))
        self._config = directory / "forebay.toml"
        self._text = text
        write_private(self._config, text + rest)

    def start(self) -> ChildProcess:
        """Returns at once."""
        return module("forebay_client.cli.main", "serve", "--config", str(self._config), log=self.log, announces=False)

    def reload(self, rest: str) -> None:
        """Has the running one go on with another `rest`, in all workers."""
        write_private(self._config, self._text + rest)
        url, headers = f"http://127.0.0.1:{self.admin}/v1/config/reload", {"Content-Type": "application/json"}
        with urlopen(Request(url, b"", headers, method="POST")):
            pass

    def first_answer(self, child: ChildProcess, target: str) -> TimedResponse:
        """The first answer it gives, however often it must be asked until it listens."""
        deadline = time.monotonic() + _START_SECONDS
        [request] = signed(self.port, [target], time.time(), count=1)
        while True:
            try:
                with KeepAliveConnection(self.port) as connection:
                    return connection.get(request, digest=True)
            except ConnectionRefusedError:
                if child.ended_within(0.002):
                    raise child.failed("ended while starting") from None
                if time.monotonic() > deadline:
                    raise child.failed("does not listen") from None

    @contextmanager
    def running(self, target: str, hit: str = "hit-memory", form: Form = "header") -> Iterator[Peer]:
        """Ready when it has answered for `target`, and all its workers run."""
        with cores.pinned(cores.SERVER) if self._pinned else nullcontext():
            child = self.start()
        with child:
            self.first_answer(child, target)
            while len(cores.workers_of(child.pid)) < self.workers:
                if child.ended_within(0.01):
                    raise child.failed("ended while starting")
            yield self.peer(child.pid, hit, form)

    def peer(self, group: int, hit: str = "hit-memory", form: Form = "header") -> Peer:
        """The running one with this process group, to be asked in this form."""
        return Peer(
            "Forebay" if form == "header" else f"Forebay, {form}",
            self.port,
            group,
            HIT_HEADER,
            hit,
            lambda targets: signed(self.port, targets, time.time(), form),
            self.log,
            # What is read from the SSD moves up: what was read last is still there when it is read again.
            "hit-memory" if hit == "hit-ssd" else "",
        )


@cache
def _compile() -> None:
    """Its bytecode is there, as pip and the container's image leave it: where PYTHONDONTWRITEBYTECODE is set no start
    would write it, and each would compile the whole program."""
    for folder in ("proxy", "client"):
        compileall.compile_dir(ROOT / folder, quiet=1)
