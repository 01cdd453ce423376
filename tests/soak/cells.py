"""Contents that say what they are: every 64 bytes name the key, the version and where they stand in it.

So any range of any answer shows by itself whether it is of one version, of the right one, and in its place.
"""

CELL = 64


def content(key: str, version: int, size: int) -> bytes:
    """`size` bytes of a version, a multiple of CELL."""
    return b"".join(_cell(key, version, offset) for offset in range(0, size, CELL))


def version_of(key: str, body: bytes, start: int) -> int:
    """The version that `body` is of, which begins at byte `start` of the object. AssertionError if it is not one.

    `start` and the length are multiples of CELL; the body is not empty.
    """
    version = int(body[:CELL].split(b"|")[1])
    expected = b"".join(_cell(key, version, offset) for offset in range(start, start + len(body), CELL))
    assert body == expected, f"{key}: bytes of another version or place in an answer of version {version}"
    return version


def _cell(key: str, version: int, offset: int) -> bytes:
    return f"{key}|{version:012d}|{offset:012d}|".encode().ljust(CELL - 1, b".") + b"\n"
