"""The origin of the benchmarks, as seen by who starts it."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import cores
from benchmarks.processes import module, ready_line

BUCKET: Final = "bench"


class Told(NamedTuple):
    """The origin's own count since it started."""

    gets: int
    sent: int
    """Bytes of bodies."""


class Objects(NamedTuple):
    """`number` objects of `size` bytes."""

    size: int
    number: int


@dataclass(frozen=True, slots=True)
class Origin:
    """A running one."""

    port: int
    counts: int
    objects: Mapping[str, Objects]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def targets(self, prefix: str) -> list[str]:
        """The paths of the objects under `prefix`."""
        return [f"/{BUCKET}/{prefix}/{number:05}" for number in range(self.objects[prefix].number)]

    def told(self) -> Told:
        with socket.create_connection(("127.0.0.1", self.counts)) as connection, connection.makefile() as lines:
            told = json.loads(lines.readline())
        return Told(told["gets"], told["sent"])


@contextmanager
def running_origin(directory: Path, objects: Mapping[str, Objects]) -> Iterator[Origin]:
    """On the load's core: while hits are timed it has nothing to do."""
    specs = [f"{prefix}:{size}:{number}" for prefix, (size, number) in objects.items()]
    with cores.pinned(cores.LOAD):
        child = module("benchmarks.origin_process", BUCKET, *specs, log=directory / "origin.log")
    with child:
        port, counts = ready_line(child).split()
        yield Origin(int(port), int(counts), objects)


@contextmanager
def far(origin: Origin, round_trip: float, bandwidth: float | None, directory: Path) -> Iterator[int]:
    """A port of loopback from which the origin is `round_trip` seconds away; `bandwidth`: bytes a second for each
    connection, None for no bound."""
    arguments = (f"127.0.0.1:{origin.port}", str(round_trip), *([str(bandwidth)] if bandwidth is not None else []))
    with module("forebay.shell.demo.latency", *arguments, log=directory / "link.log") as link:
        yield int(ready_line(link))
