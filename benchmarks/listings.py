"""Listings of a million keys, far away: the origin itself, the first through Forebay, later ones.

`python -m benchmarks.listings [KEYS [ROUND_TRIP]]`; a million keys take a few minutes.

- boto3: its paginator, as a training script uses it. Parsing a page costs it more than the round trip, so through
  anything it lists no faster than its own core allows; direct is measured over PAGES pages.
- plain: pages requested one after the other, of which only the token is read: what a client in another language sees.

Then: what a listed key costs in memory and on disk, what a page costs in CPU against one that is forwarded, and a
thousand stale objects that one listing renews.
"""

import http.client
import json
import re
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.listing_origin import BUCKET, key_of
from benchmarks.ports import free_ports
from benchmarks.processes import module, ready_line
from forebay_demo.child_process import ChildProcess

PAGES = 40
TURN_PAGES, TURNS = 100, 9
FORWARDED = "Cache-Control: no-cache\r\n"
_CONFIGURATION = """
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
freshness = "60s"
"""
FRESH = 60.0
"""Seconds, as in the configuration."""
_TOKEN = re.compile(rb"<NextContinuationToken>([^<]*)<")


def client(port: int) -> Any:
    config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
    session = boto3.session.Session("bench", "bench", region_name="us-east-1")
    return session.client("s3", endpoint_url=f"http://127.0.0.1:{port}", config=config)


def boto_rate(port: int, pages: int) -> float:
    """Pages a second of boto3's paginator."""
    s3, count, begun = client(port), 0, time.perf_counter()
    for _ in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        count += 1
        if count == pages:
            break
    s3.close()
    return count / (time.perf_counter() - begun)


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


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def cpu_of_a_page(pid: int, port: int, extra: str = "") -> float:
    """Seconds."""
    used = cpu_seconds(pid)
    _, count = plain_seconds(port, TURN_PAGES, extra)
    return (cpu_seconds(pid) - used) / count


def anonymous_bytes(pid: int) -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def main(keys: int, round_trip: float) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with module("benchmarks.listing_origin", str(keys), str(round_trip), log=directory / "origin.log") as origin:
            far, told = map(int, ready_line(origin).split())
            pages = -(-keys // 1000)
            port, admin = free_ports(2)
            config = directory / "forebay.toml"
            config.write_text(_CONFIGURATION.format(port=port, admin=admin, directory=directory, origin=far))
            arguments = ("serve", "--config", str(config))
            with module("forebay_client.main", *arguments, log=directory / "forebay.log", announces=False) as child:
                wait_listening(port, child)
                plain_seconds(port, 2, FORWARDED)
                before, asked = anonymous_bytes(child.pid), counts(told)["listings"]
                used = cpu_seconds(child.pid)
                first, _ = plain_seconds(port)
                print(
                    f"first listing through Forebay, plain: {first:.2f} s for {pages} pages, "
                    f"{counts(told)['listings'] - asked} requests, {cpu_seconds(child.pid) - used:.2f} s of CPU"
                )
                child.ended_within(1.0)  # the walk may end a moment after its client
                print(
                    f"memory: {(anonymous_bytes(child.pid) - before) / keys:.1f} B a key, all that the process grew by"
                )
                asked = counts(told)["listings"]
                later, _ = plain_seconds(port)
                print(f"later listing, plain: {later:.2f} s, {counts(told)['listings'] - asked} requests")
                passed, count = plain_seconds(port, PAGES, FORWARDED)
                print(f"forwarded: {passed / count * pages:.1f} s for as many pages")
                turns = [
                    (cpu_of_a_page(child.pid, port), cpu_of_a_page(child.pid, port, FORWARDED)) for _ in range(TURNS)
                ]
                ratio = statistics.median(here / forwarded for here, forwarded in turns)
                print(
                    f"CPU of a page, in {TURNS} turns: {min(turns)[0] * 1000:.2f} ms, forwarded "
                    f"{min(each[1] for each in turns) * 1000:.2f} ms; median of the ratios {ratio:.2f}"
                )
                direct, count = plain_seconds(far, PAGES)
                print(f"direct, plain: {direct / count * pages:.1f} s for as many pages")
                rate, through = boto_rate(far, PAGES), boto_rate(port, PAGES)
                print(f"boto3's paginator: direct {pages / rate:.1f} s, through Forebay later {pages / through:.1f} s")
                print(f"first listing against boto3 direct: {pages / rate / first:.1f} times as fast")
                heads = min(1000, keys)
                read_seconds(port, heads)
                child.ended_within(FRESH + 0.1)
                asked_reads = counts(told)["reads"]
                drop_snapshot(admin)
                asked = counts(told)["listings"]
                plain_seconds(port, 1)
                stale = read_seconds(port, heads)
                print(
                    f"{heads} stale heads after a new listing: {counts(told)['reads'] - asked_reads} requests of their "
                    f"own, {stale:.2f} s"
                )


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(int(arguments[0]) if arguments else 1_000_000, float(arguments[1]) if len(arguments) > 1 else 0.02)
