"""Starts the benchmarks' origin, and reads its counters."""

import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.origins.link import Link
from benchmarks.processes import cores
from benchmarks.processes.processes import module, ready_line

BUCKET: Final = "bench"


class OriginCounters(NamedTuple):
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
    far: tuple[int, ...] = ()
    """For each link a port from which it is so far away."""
    process: int = 0
    """Its process id, where it is one of ours."""

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Nothing is answered meanwhile; connections are taken, by the kernel."""
        os.kill(self.process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process, signal.SIGCONT)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def targets(self, prefix: str) -> list[str]:
        """The paths of the objects under `prefix`."""
        return [f"/{BUCKET}/{prefix}/{number:05}" for number in range(self.objects[prefix].number)]

    def counters(self) -> OriginCounters:
        with socket.create_connection(("127.0.0.1", self.counts)) as connection, connection.makefile() as lines:
            document = json.loads(lines.readline())
        return OriginCounters(document["gets"], document["sent"])


@contextmanager
def running_origin(
    directory: Path, objects: Mapping[str, Objects], links: Sequence[Link] = (), *, pinned: bool = True
) -> Iterator[Origin]:
    """On the load's core: while hits are timed it has nothing to do. Not `pinned`: wherever there is room."""
    specs = [f"{prefix}:{size}:{number}" for prefix, (size, number) in objects.items()]
    far = [f"{round_trip}" + (f":{bandwidth}" if bandwidth is not None else "") for round_trip, bandwidth in links]
    with cores.pinned(cores.LOAD) if pinned else nullcontext():
        child = module("benchmarks.origins.origin_process", BUCKET, *far, "--", *specs, log=directory / "origin.log")
    with child:
        port, counts, *others = map(int, ready_line(child).split())
        yield Origin(port, counts, objects, tuple(others), child.pid)
