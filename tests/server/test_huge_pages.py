"""Huge pages: what a process has allocated is moved into them, and stays as it was."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from forebay.server.huge_pages import HUGE, huge_starts

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
CAN_MOVE = (
    tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (6, 1)
    and SETTING.exists()
    and "[never]" not in SETTING.read_text()
)
MOVED = """
from pathlib import Path
from forebay.server.huge_pages import move_into_huge_pages

def huge():
    return int(Path("/proc/self/smaps_rollup").read_text().split("AnonHugePages:")[1].split()[0])

made = {number: str(number) for number in range(200_000)}
moved = move_into_huge_pages()
assert all(text == str(number) for number, text in made.items())
print(moved, huge())
"""


@pytest.mark.skipif(not CAN_MOVE, reason="this kernel does not move memory into huge pages")
def test_what_is_allocated_is_moved_and_unchanged() -> None:
    ran = subprocess.run([sys.executable, "-c", MOVED], check=True, capture_output=True, text=True)
    moved, kibibytes = map(int, ran.stdout.split())
    assert moved > 0
    assert kibibytes >= moved * HUGE // 1024


@pytest.mark.parametrize(
    ("mapping", "starts"),
    [
        ("7f0000000000-7f0000600000 rw-p 00000000 00:00 0", [0x7F0000000000, 0x7F0000200000, 0x7F0000400000]),
        ("7f0000001000-7f0000600000 rw-p 00000000 00:00 0", [0x7F0000200000, 0x7F0000400000]),
        ("7f0000001000-7f00005ff000 rw-p 00000000 00:00 0", [0x7F0000200000]),
        ("00200000-00400000 rw-p 00000000 00:00 0      [heap]", [0x200000]),
        ("7f0000000000-7f0000100000 rw-p 00000000 00:00 0", []),
        ("7f0000000000-7f0000600000 r--p 00000000 00:00 0", []),
        ("7f0000000000-7f0000600000 rw-s 00000000 00:01 5      /memfd:forebay-blocks (deleted)", []),
        ("7f0000000000-7f0000600000 rw-p 00000000 08:01 5      /usr/lib/libpython3.11.so", []),
        ("7ffc00000000-7ffc00600000 rw-p 00000000 00:00 0      [stack]", []),
    ],
)
def test_only_private_memory_without_a_file_is_moved(mapping: str, starts: list[int]) -> None:
    assert list(huge_starts(mapping)) == starts
