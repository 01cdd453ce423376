"""Checksums of files that are written once and never synced: what a power cut has left of them.

    <directory>/sums    a line: the boot of the machine in which they were written
                        a line for each: name, bytes, CRC-64/XZ in hexadecimal

Files that were written since the machine was booted are what they were written to be, and are not read for that.

https://man7.org/linux/man-pages/man5/proc_sys_kernel.5.html (random/boot_id)
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from forebay.core.buffers import Buffer
from forebay.protocol.body.crc64 import crc64

_SUMS: Final = "sums"
_PIECE: Final = 1 << 20


class FileSum(NamedTuple):
    """The length and the checksum of a file."""

    size: int = 0
    """Bytes."""
    crc: int = 0

    def extended(self, content: Buffer | bytes | bytearray) -> "FileSum":
        """Returns the sum of the file with more bytes at its end."""
        return FileSum(self.size + len(content), crc64(content, self.crc) if self.size else crc64(content))


@cache
def boot_id() -> str:
    """Returns what tells this boot of the machine from all others; "": it is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def write_sums(directory: Path, sums: Mapping[str, FileSum], boot: str) -> None:
    """Writes the sums of the files in a directory, in this boot. Raises OSError."""
    lines = [boot, *(f"{name} {each.size} {each.crc:016x}" for name, each in sums.items())]
    (directory / _SUMS).write_text("".join(f"{line}\n" for line in lines))


def check_sums(directory: Path, boot: str) -> None:
    """Raises ValueError if the machine was booted since the files were written, and one is not as it was written; and
    OSError."""
    written_in, *lines = (directory / _SUMS).read_text().splitlines()
    if written_in == boot != "":
        return
    if not lines:
        raise ValueError("no file is known")
    for line in lines:
        name, size, crc = line.split(" ")
        if _sum_of(directory / name) != FileSum(int(size), int(crc, 16)):
            raise ValueError(f"{name} is damaged")


def _sum_of(path: Path) -> FileSum:
    found = FileSum()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found = found.extended(piece)
    return found
