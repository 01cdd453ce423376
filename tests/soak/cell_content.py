"""Self-describing contents: every 64 bytes name the key, the version and their offset.

So any range of any answer shows by itself whether it is of one version, of the right one, and in its place.
"""

from functools import lru_cache

CELL = 64


@lru_cache(maxsize=256)
def content(key: str, version: int, size: int) -> bytes:
    """`size` bytes of a version, a multiple of CELL."""
    cell = f"{key}|{version:012d}|%012d|".encode()
    cell += b"." * (CELL - 1 - len(cell % 0)) + b"\n"
    return cell * (size // CELL) % tuple(range(0, size, CELL))


def version_in(body: bytes) -> int:
    """The version that the first cell of a content names."""
    return int(body[:CELL].split(b"|")[1])
