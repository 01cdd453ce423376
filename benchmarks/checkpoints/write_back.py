"""A Forebay with a journal, whose prefix `back` is acknowledged from it, and `through` by the origin."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

from benchmarks.checkpoints.checkpoint_writers import CREDENTIALS
from benchmarks.errors import UnexpectedResponse
from benchmarks.origins.origin import BUCKET
from benchmarks.processes import cores
from benchmarks.servers.forebay import TEMPLATE, Forebay
from compat.host_names import DOMAIN
from forebay_demo.child_process import ChildProcess

BACK: Final = "written/back"
THROUGH: Final = "written/through"
_PATIENCE: Final = 300.0
_PACE: Final = 0.02
_REST: Final = """
{credentials}grants = [{{ path = "{bucket}/**", allow = ["read", "write", "list", "delete"] }}]

[[rules]]
path = "{bucket}/{back}/**"
write = "back"

[journal]
path = "{journal}"
size = "8GiB"
"""


class Backlog(NamedTuple):
    """What the metrics say of the journal."""

    pending: int
    accepted: int
    through: int
    """Both since the start, of writes under the rule."""


class WriteBackForebay:
    """A running one."""

    def __init__(self, forebay: Forebay, child: ChildProcess) -> None:
        self._admin, self._child, self._bodies = forebay.admin, child, forebay.directory / "journal" / "bodies"
        self.port = forebay.port

    @property
    def cpu_seconds(self) -> float:
        return cores.cpu_seconds(self._child.pid)

    def backlog(self) -> Backlog:
        with urlopen(f"http://127.0.0.1:{self._admin}/metrics") as response:
            lines = [line.rpartition(" ") for line in response.read().decode().splitlines() if line[:1] != "#"]
        values = {name: float(value) for name, _, value in lines if name.startswith("forebay_journal")}
        results = {
            result: values.get(f'forebay_journal_writes_total{{result="{result}"}}', 0.0)
            for result in ("accepted", "through")
        }
        return Backlog(int(values["forebay_journal_writes"]), int(results["accepted"]), int(results["through"]))

    def has_bodies(self) -> bool:
        """Whether large bodies wait for the origin. The disk is asked, which costs Forebay nothing."""
        return any(self._bodies.iterdir())

    def wait_drained(self) -> None:
        """Returns when the origin has everything."""
        deadline = time.monotonic() + _PATIENCE
        while self.has_bodies() or self.backlog().pending:
            if self._child.ended_within(_PACE):
                raise self._child.failed("ended with a backlog")
            if time.monotonic() > deadline:
                raise UnexpectedResponse(f"the origin has not got everything after {_PATIENCE:g} s")


@contextmanager
def running_write_back(
    directory: Path, origin_port: int, target: str, *, pinned: bool = False
) -> Iterator[WriteBackForebay]:
    """Ready when it has answered for `target`. `pinned`: on the servers' core, not wherever it likes."""
    journal = directory / "journal"
    journal.mkdir(parents=True)
    rest = _REST.format(credentials=CREDENTIALS, bucket=BUCKET, back=BACK, journal=journal)
    template = directory / "template.toml"
    template.write_text(TEMPLATE.read_text().replace("[server]\n", f'[server]\ndomains = ["{DOMAIN}"]\n'))
    forebay = Forebay(directory, origin_port, memory="512MiB", rest=rest, template=template)
    with cores.pinned(cores.SERVER) if pinned else nullcontext():
        child = forebay.start()
    with child:
        forebay.first_answer(child, target)
        yield WriteBackForebay(forebay, child)
