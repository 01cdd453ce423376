"""The allocator keeps what is freed: pieces that come and go cost no page faults."""

import subprocess
import sys

import pytest

from forebay.server.allocator import KEPT

PASSING = """
import resource, sys
from forebay.server.allocator import keep_freed_memory

if sys.argv[1] == "kept" and not keep_freed_memory():
    print("another C library")
    sys.exit()
for turn in range(60):
    if turn == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [bytes(bytearray(512 << 10)) for _ in range(int(sys.argv[2]) >> 20)]
    del pieces
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(kind: str) -> str:
    command = [sys.executable, "-c", PASSING, kind, str(KEPT)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_pieces_that_come_and_go_cost_no_page_faults() -> None:
    kept = faults("kept")
    if not kept.isdecimal():
        pytest.skip(kept)
    assert int(kept) < 1000 < int(faults("as it is"))


RELEASED = """
import sys
from pathlib import Path
from forebay.server.allocator import keep_freed_memory, release_freed_memory

def anonymous():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])

if not keep_freed_memory():
    print("another C library")
    sys.exit()
pieces = [bytes(bytearray(64 << 10)) for _ in range(128)]
full = anonymous()
del pieces
kept = anonymous()
release_freed_memory()
print(full - kept, full - anonymous())
"""


def test_what_is_kept_is_released_on_demand() -> None:
    ran = subprocess.run([sys.executable, "-c", RELEASED], check=True, capture_output=True, text=True)
    if "another" in ran.stdout:
        pytest.skip(ran.stdout)
    kept, released = map(int, ran.stdout.split())
    assert kept < 2048 < 6 * 1024 < released, "KiB returned, of 8 MiB"
