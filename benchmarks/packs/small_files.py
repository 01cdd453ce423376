"""Small files: read from a local file system, as loose objects, and as members of a pack.

    python -m benchmarks.packs.small_files [FILES]

Each loop reads every file once, whole, in one random order, one after the other, as a loop of cv2.imread does. Decoding
is left out, as it is the same in all loops, but for a byte of each page, which is looked at. The origin is 20 ms away.
Warm loops are measured in turns, each in an order that is drawn, and compared with the first by the ratios of each
turn: the median, and between which a half of them lies, of time and of CPU (the client's, and the server's). They are
warm once shards are read from memory files; turns before that, of copies to the ring, take up to twice the CPU. A turn
is as many passes as take PASS_SECONDS. Cold ones begin with an empty Forebay each. On a machine that is shared only the
CPU means anything.
"""

import json
import os
import random
import resource
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

from benchmarks.origins.link import ROUND_TRIP, Link
from benchmarks.origins.origin import BUCKET, Objects, Origin, running_origin
from benchmarks.processes.cores import cpu_seconds_of
from benchmarks.servers.forebay import TEMPLATE, Forebay
from forebay_client import Client
from forebay_client.packs import PackReader

SIZE: Final = 20_000
TURNS: Final = 21
WARMING: Final = 10
"""Passes until the blocks of the shards are in memory files, of which a few fill with each."""
PASS_SECONDS: Final = 0.15
COLD: Final = 200
"""Files at most of the cold loop over loose ones, which take a round trip each."""
INDEX: Final = "packed/small/index.fbpack"
RULE: Final = f'\n[[rules]]\npath = "{BUCKET}/small/**"\npacked = "packed/**"\nfreshness = "immutable"\n'
TRAINER: Final[dict[str, Any]] = {"access_key": "trainer", "secret_key": "trainer-secret", "region": "us-east-1"}


@contextmanager
def running(directory: Path, origin: Origin, name: str) -> Iterator[tuple[Forebay, Client, int]]:
    """An empty Forebay with a socket, and a client of it that does without."""
    template = directory / f"{name}.toml"
    template.write_text(TEMPLATE.read_text().replace("[server]", f'[server]\nsocket = "{_socket(directory, name)}"', 1))
    forebay = Forebay(directory / name, origin.far[0], rest=RULE, template=template)
    with forebay.start() as child:
        forebay.first_answer(child, f"/{BUCKET}/small/00000")
        with Client(f"http://127.0.0.1:{forebay.port}", socket="", **TRAINER) as client:
            yield forebay, client, child.pid


def _socket(directory: Path, name: str) -> Path:
    return directory / f"{name}.sock"


def pack(forebay: Forebay) -> None:
    """Packs all small files."""
    admin = f"http://127.0.0.1:{forebay.admin}/v1"
    order: dict[str, str] = {"bucket": BUCKET, "prefix": "small/"}
    job = _json(f"{admin}/packs", order)
    while job["state"] in {"queued", "running"}:
        os.sched_yield()
        job = _json(f"{admin}/jobs/{job['id']}")
    assert job["state"] == "done", job
    print(f"packed {job['done']} objects, {job['bytes_done']} bytes in {job['ended_at'] - job['started_at']:.1f} s")


def _json(url: str, body: dict[str, str] | None = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def seconds(loop: Callable[[], int], files: int) -> float:
    """How long a loop over so many files takes. It returns the bytes that it read."""
    began = time.perf_counter()
    size = loop()
    elapsed = time.perf_counter() - began
    assert size == files * SIZE, (size, files)
    return elapsed


class Turn(NamedTuple):
    """What one loop took, in seconds."""

    time: float
    client: float
    server: float


def in_turns(loops: dict[str, Callable[[], int]], files: int, server: int) -> None:
    """Measures the loops in turns, and prints the ratios of each to the first. `server`: the process."""
    first, found = next(iter(loops)), {name: list[Turn]() for name in loops}
    passes = {name: max(1, round(PASS_SECONDS / seconds(loop, files))) for name, loop in loops.items()}
    for _ in range(TURNS):
        for name, loop in random.sample(list(loops.items()), len(loops)):
            count, own, theirs = passes[name], _own_cpu(), cpu_seconds_of(server)
            taken = sum(seconds(loop, files) for _ in range(count))
            used = taken, _own_cpu() - own, cpu_seconds_of(server) - theirs
            found[name].append(Turn(*(each / count for each in used)))
    print(f"{'us a file':52}     time  client  server   time x the first    CPU x the first")
    for name, turns in found.items():
        micro = [median(column) / files * 1e6 for column in zip(*turns, strict=True)]
        pairs = list(zip(turns, found[first], strict=True))
        ratios = [mine.time / base.time for mine, base in pairs]
        cpu = [(mine.client + mine.server) / base.client for mine, base in pairs]
        print(f"{name:52} {micro[0]:8.1f}{micro[1]:8.1f}{micro[2]:8.1f}   {_spread(ratios)}   {_spread(cpu)}")


def _spread(ratios: Sequence[float]) -> str:
    low, middle, high = quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _looked_at(content: bytes | memoryview) -> int:
    """The number of bytes, after a look at each page of them."""
    return len(content) if bytes(content[::4096]) else 0


def read_local(paths: Sequence[str]) -> int:
    size = 0
    for path in paths:
        with open(path, "rb") as file:  # noqa: PTH123 # as such loops do
            size += _looked_at(file.read())
    return size


def read_objects(client: Client, keys: Sequence[str]) -> int:
    return sum(_looked_at(client.get(BUCKET, key)) for key in keys)


def read_many(client: Client, keys: Sequence[str]) -> int:
    return sum(_looked_at(item.content()) for item in client.get_many(BUCKET, keys))


def read_members(reader: PackReader, keys: Sequence[str]) -> int:
    return sum(_looked_at(item.content()) for item in reader.get_many(keys))


def main(files: int) -> None:
    keys = [f"small/{number:05}" for number in range(files)]
    random.Random(1).shuffle(keys)
    cold = keys[:COLD]
    with tempfile.TemporaryDirectory(prefix="small-files-") as text:
        directory = Path(text)
        with running_origin(directory, {"small": Objects(SIZE, files)}, [Link(ROUND_TRIP)], pinned=False) as origin:
            with running(directory, origin, "first") as (forebay, client, server):
                loose = seconds(lambda: read_objects(client, cold), len(cold))
                pack(forebay)
                local = directory / "files"
                paths = [str(local / key) for key in keys]
                (local / "small").mkdir(parents=True)
                for key, path in zip(keys, paths, strict=True):
                    Path(path).write_bytes(client.get(BUCKET, key))
                reader = PackReader(client, BUCKET, INDEX)
                endpoint = f"http://127.0.0.1:{forebay.port}"
                with Client(endpoint, socket=str(_socket(directory, "first")), **TRAINER) as near:
                    near_reader = PackReader(near, BUCKET, INDEX)
                    for _ in range(WARMING):
                        read_members(reader, keys)
                        read_members(near_reader, keys)
                    in_turns(
                        {
                            "local files, open and read": lambda: read_local(paths),
                            "members, PackReader.get_many, socket": lambda: read_members(near_reader, keys),
                            "members, PackReader.get_many, HTTP": lambda: read_members(reader, keys),
                            "members by the rule, Client.get_many, HTTP": lambda: read_many(client, keys),
                            "members by the rule, Client.get, HTTP": lambda: read_objects(client, keys),
                        },
                        files,
                        server,
                    )
                    print(f"socket: {near.stats.requests}, fallbacks {near.stats.fallbacks}")
            one = loose / len(cold)
            print(f"cold: loose objects, one by one: {one * 1e6:.1f} us a file")
            colds: dict[str, Callable[[Client], int]] = {
                "members, PackReader.get_many": lambda client: read_members(PackReader(client, BUCKET, INDEX), keys),
                "members by the rule, Client.get": lambda client: read_objects(client, keys),
            }
            for name, loop in colds.items():
                with running(directory, origin, name.partition(",")[0].replace(" ", "-")) as (_, client, _):
                    members = seconds(lambda: loop(client), files) / files  # noqa: B023 # called at once
                print(f"cold: {name}: {members * 1e6:.1f} us a file, {one / members:.1f} times faster")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
