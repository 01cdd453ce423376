"""Listings of a million keys, far away: the origin itself, the first through Forebay, later ones.

- boto3: its paginator, as a training script uses it. Parsing a page costs it more than the round trip, so through
  anything it lists no faster than its own core allows; direct is measured over PAGES pages.
- plain: pages requested one after the other, of which only the token is read: what a client in another language sees.

Then: what a listed key costs in memory, what a page costs in CPU against one that is forwarded, and a thousand stale
objects that one listing renews.
"""

import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import boto3
from botocore.config import Config

from benchmarks.bench_context import BenchContext
from benchmarks.origins.link import ROUND_TRIP
from benchmarks.origins.listing_origin import BUCKET, key_of
from benchmarks.pages.tables import Section, Table, time_text
from benchmarks.processes import cores
from benchmarks.processes.processes import module, ready_line
from forebay_demo.child_process import ChildProcess
from forebay_demo.free_ports import free_ports

PAGES: Final = 40
TURN_PAGES: Final = 100
TURNS: Final = 9
FIRST_TURNS: Final = 3
_CONFIGURATION: Final = """
[server]
listen = "127.0.0.1:{port}"
admin = "127.0.0.1:{admin}"
state_dir = "{directory}/state"
access_log = "{directory}/access.log"

[origin]
endpoint = "http://127.0.0.1:{origin}"
dialect = "minio"
access_key = "bench"
secret_key = "bench"

[ssd]
path = "{directory}/ssd"
size = "1GiB"

[auth]
mode = "open"

[[rules]]
path = "bench/**"
listing = "1h"
freshness = "{fresh:g}s"
"""
_PAST: Final = "Cache-Control: no-cache\r\n"
_TOKEN: Final = re.compile(rb"<NextContinuationToken>([^<]*)<")


def client(port: int) -> Any:
    config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
    session = boto3.session.Session("bench", "bench", region_name="us-east-1")
    return session.client("s3", endpoint_url=f"http://127.0.0.1:{port}", config=config)


class BotoPages(NamedTuple):
    """Pages of boto3's paginator, one after the other."""

    seconds: float
    """Of each."""
    busy: float
    """Of them, those in which this process had a core."""

    def unhindered(self, round_trip: float) -> float:
        """Seconds of a page if it had never waited for a core."""
        return min(self.seconds, self.busy + round_trip)


def boto_pages(port: int, pages: int) -> BotoPages:
    """Lists the first `pages`."""
    s3, count, begun, used = client(port), 0, time.perf_counter(), time.process_time()
    for _ in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        count += 1
        if count == pages:
            break
    s3.close()
    return BotoPages((time.perf_counter() - begun) / count, (time.process_time() - used) / count)


def plain_seconds(port: int, pages: int | None = None, extra: str = "") -> tuple[float, int]:
    """Seconds and pages of a whole listing, or of its first `pages`."""
    begun, token, count = time.perf_counter(), b"", 0
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as reader:
        while True:
            more = b"&continuation-token=" + token.replace(b"=", b"%3D") if token else b""
            head = b"GET /%s?list-type=2&encoding-type=url%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n"
            connection.sendall(head % (BUCKET.encode(), more, port, extra.encode()))
            status, length = reader.readline(), 0
            assert b" 200 " in status, status
            while (line := reader.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            found = _TOKEN.search(reader.read(length))
            count += 1
            if found is None or count == pages:
                return time.perf_counter() - begun, count
            token = found[1]


def read_seconds(port: int, keys: int) -> float:
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as reader:
        for number in range(keys):
            connection.sendall(f"GET /{BUCKET}/{key_of(number)} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            assert b" 200 " in reader.readline()
            while reader.readline().strip():
                pass
            reader.read(1)
    return time.perf_counter() - begun


def wait_listening(port: int, child: ChildProcess) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not child.ended_within(0.05):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            continue
    raise TimeoutError


def drop_snapshot(admin: int) -> None:
    """A purge of nothing that is cached: the next listing lists anew."""
    connection = http.client.HTTPConnection("127.0.0.1", admin)
    connection.request("DELETE", f"/v1/cache?bucket={BUCKET}&prefix=none", "{}", {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    connection.close()


def counts(port: int) -> dict[str, int]:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        counted: dict[str, int] = json.loads(connection.makefile().readline())
        return {"listings": 0, "reads": 0} | counted


def cpu_of_a_page(pid: int, port: int, extra: str = "") -> float:
    """Seconds."""
    used = cores.cpu_seconds_of(pid)
    _, count = plain_seconds(port, TURN_PAGES, extra)
    return (cores.cpu_seconds_of(pid) - used) / count


def anonymous_bytes(pid: int) -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


_TEXT: Final = f"""\
{{keys:,}} keys, 1,000 a page, from an origin {ROUND_TRIP * 1000:g} ms away
([listing_origin.py](../benchmarks/origins/listing_origin.py), which computes its pages): directly, through a Forebay
with `listing = "1h"` that has no snapshot of them, once more, and past the snapshot (`Cache-Control: no-cache`). By
boto3's paginator, which needs more time to parse a page than the round trip, and by a bare client that asks for a page
after the other and reads nothing but the token of the next. Of boto3 its own CPU and the round trips count, where that
is less than what the clock says: other programs don't make it slower. Listings that are forwarded, those of the origin,
and boto3's are measured over {PAGES} pages, and stand for all. nginx can't take part: who may list, and which pages a
write changes, it does not know. "Times as fast" compares with boto3, directly."""


class _Listed(NamedTuple):
    """A way to list all keys."""

    name: str
    seconds: float
    requests: int
    """At the origin, in all."""
    cpu: float | None
    """Seconds of Forebay's, a page."""


def run(bench: BenchContext) -> list[Section]:
    keys, fresh = bench.sizes.listing
    log = bench.directory / "origin.log"
    with module("benchmarks.origins.listing_origin", str(keys), str(ROUND_TRIP), log=log) as origin:
        far, counter = map(int, ready_line(origin).split())
        with _forebay(bench.directory, far, fresh) as (child, port, admin):
            plain_seconds(port, 2, _PAST)
            listed, memory = _listings(child, far, port, counter, keys)
            turns = [(cpu_of_a_page(child.pid, port), cpu_of_a_page(child.pid, port, _PAST)) for _ in range(TURNS)]
            renewed = _renewed(child, port, admin, counter, min(1000, keys // 10), fresh)
    direct = listed[0].seconds
    rows = [
        (
            each.name,
            time_text(each.seconds),
            f"{each.requests:,}",
            time_text(each.cpu) if each.cpu is not None else "",
            f"**{direct / each.seconds:.1f}**",
        )
        for each in listed
    ]
    headings = ("", "all keys", "requests to the origin", "CPU of Forebay a page", "times as fast")
    ratio = median(here / forwarded for here, forwarded in turns)
    remarks = (
        f"{memory:.1f} bytes of memory a key, all that the process grew by. A page from the snapshot costs {ratio:.2f} "
        f"times the CPU of a forwarded one, the median of {TURNS} turns. {renewed}"
    )
    return [Section(f"Listing {keys:,} keys", _TEXT.format(keys=keys), Table(headings, rows), remarks)]


@contextmanager
def _forebay(directory: Path, origin: int, fresh: float) -> Iterator[tuple[ChildProcess, int, int]]:
    """One that listens, its port and its admin port."""
    port, admin = free_ports(2)
    config = directory / "forebay.toml"
    config.write_text(_CONFIGURATION.format(port=port, admin=admin, directory=directory, origin=origin, fresh=fresh))
    arguments = ("serve", "--config", str(config))
    with module("forebay_client.cli.main", *arguments, log=directory / "forebay.log", announces=False) as child:
        wait_listening(port, child)
        yield child, port, admin


def _listings(child: ChildProcess, far: int, port: int, counter: int, keys: int) -> tuple[list[_Listed], float]:
    """All ways, boto3 directly first; and the bytes of memory that a key has cost."""
    pages = -(-keys // 1000)
    before, memory = counts(counter)["listings"], anonymous_bytes(child.pid)
    first = _timed(child, port, counter, "Forebay, the first, a bare client", pages)
    child.ended_within(1.0)  # the walk may end a moment after its client
    grown = (anonymous_bytes(child.pid) - memory) / keys
    first = first._replace(requests=counts(counter)["listings"] - before)
    later = _timed(child, port, counter, "Forebay, later, a bare client", pages)
    used = cores.cpu_seconds_of(child.pid)
    past, count = plain_seconds(port, PAGES, _PAST)
    used = (cores.cpu_seconds_of(child.pid) - used) / count
    direct, _ = plain_seconds(far, PAGES)
    asked = counts(counter)["listings"]
    boto_later = pages * boto_pages(port, PAGES).unhindered(0.0)
    asked = counts(counter)["listings"] - asked
    listed = [
        _Listed("direct, boto3", pages * boto_pages(far, PAGES).unhindered(ROUND_TRIP), pages, None),
        _Listed("direct, a bare client", direct / count * pages, pages, None),
        first,
        later,
        _Listed("Forebay, later, boto3", boto_later, asked, None),
        _Listed("Forebay, forwarded, a bare client", past / count * pages, pages, used),
    ]
    return listed, max(0.0, grown)


def _timed(child: ChildProcess, port: int, counter: int, name: str, pages: int) -> _Listed:
    asked, used = counts(counter)["listings"], cores.cpu_seconds_of(child.pid)
    seconds, _ = plain_seconds(port)
    return _Listed(name, seconds, counts(counter)["listings"] - asked, (cores.cpu_seconds_of(child.pid) - used) / pages)


def _renewed(child: ChildProcess, port: int, admin: int, counter: int, heads: int, fresh: float) -> str:
    """Says how many requests as many stale objects need after a new listing."""
    read_seconds(port, heads)
    child.ended_within(fresh + 0.1)
    reads = counts(counter)["reads"]
    drop_snapshot(admin)
    plain_seconds(port, 1)
    seconds = read_seconds(port, heads)
    own = counts(counter)["reads"] - reads
    return (
        f"{heads:,} objects whose freshness had ended were read again after a new listing, in {time_text(seconds)}: "
        f"with {own} requests of their own."
    )


_FIRST_TEXT: Final = f"""\
{{keys:,}} keys, 1,000 a page, from an origin {ROUND_TRIP * 1000:g} ms away, in turns: boto3's paginator directly
({PAGES} pages, which stand for all), and the first listing through a Forebay that has no snapshot of them, by a bare
client. Of boto3 its own CPU and the round trips count, where that is less than what the clock says. "Times as fast" is
boto3's time over Forebay's; higher is better, the goal is 5."""


def run_first(bench: BenchContext) -> list[Section]:
    """The first listing alone, in short."""
    keys, _ = bench.sizes.listing
    pages = -(-keys // 1000)
    log, fresh = bench.directory / "origin.log", 15.0
    rows = []
    with module("benchmarks.origins.listing_origin", str(keys), str(ROUND_TRIP), log=log) as origin:
        far, counter = map(int, ready_line(origin).split())
        with _forebay(bench.directory, far, fresh) as (child, port, admin):
            plain_seconds(port, 2, _PAST)
            memory = anonymous_bytes(child.pid)
            for turn in range(FIRST_TURNS):
                boto = boto_pages(far, PAGES)
                drop_snapshot(admin)
                first = _timed(child, port, counter, f"{turn + 1}", pages)
                direct = pages * boto.unhindered(ROUND_TRIP)
                figures = (pages * boto.seconds, direct, first.seconds)
                rows.append((first.name, *map(time_text, figures), f"**{direct / first.seconds:.1f}**"))
            child.ended_within(1.0)
            grown = max(0.0, (anonymous_bytes(child.pid) - memory) / keys)
            renewed = _renewed(child, port, admin, counter, min(1000, keys // 10), fresh)
    headings = ("turn", "boto3, by the clock", "boto3, unhindered", "Forebay, the first", "times as fast")
    remarks = f"{grown:.1f} bytes of memory a key, all that the process grew by. {renewed}"
    return [
        Section(f"The first listing of {keys:,} keys", _FIRST_TEXT.format(keys=keys), Table(headings, rows), remarks)
    ]
