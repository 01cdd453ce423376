"""Arguments of calls of the client library, drawn at random: keys, positions, buffers and data, sensible and not."""

import array
import io
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from forebay_client import BatchKey
from harness.packed_objects import shard_and_index

KEYS: Final = {
    "plain": 100,
    "empty": 0,
    "one": 1,
    "a?b#c%2Fd": 10,
    "a%20b+c d": 11,
    "../x": 12,
    "a/../b": 13,
    "a/./b": 14,
    "a//b": 15,
    "/lead": 16,
    "//": 17,
    "trail/": 18,
    "trail/in": 19,
    "void/": 0,
    "ä/ö€\U0001f600": 20,
    "a\u0308": 21,
    "k" * 1024: 22,
    "é" * 512: 23,
    "q&=;,:@!$'()*[]<>\"\\^`{|}": 24,
    "..": 25,
    ".": 26,
    "line\nend": 27,
    "\x7f\x01": 28,
    "dir/sub/1": 29,
    "dir/sub/2": 30,
    "dir/1": 31,
    "page": 4096,
    "16k": 16_384,
    "16k+": 16_385,
    "64k-": 65_535,
    "128k": 131_072,
    "large": 300_001,
    "loose/0": 12,
    "loose/void": 0,
    "loose/dir/1": 5000,
    "loose/ü": 70_000,
}
"""Objects, and their sizes."""
LOOSE: Final = "loose/"
"""What is an object on the direct way alone: Forebay finds it in a pack."""
LOOSE_RULE: Final = f'[[rules]]\npath = "*/{LOOSE}**"\npacked = "shards/**"\nfreshness = "60s"\n'
ODD_KEYS: Final[tuple[Any, ...]] = (
    "",
    "none",
    "a\0b",
    "\ud800",
    "k" * 1025,
    "é" * 513,
    None,
    b"plain",
    7,
    "plain/",
    "dir",
)
ARCHIVE, INDEX, SHARD = "some.tar", "packed/x.fbpack", "packed/x.tar"
MEMBERS: Final = {f"m/{number:03}": bytes([number]) * (number * 97) for number in range(40)}


def content_of(key: str) -> bytes:
    return Random(key).randbytes(KEYS[key])


def contents(*, direct: bool) -> dict[str, bytes]:
    """All that a bucket has at first, on the direct way or on the others."""
    shard, index = shard_and_index(MEMBERS, shard_key=SHARD)
    loose = {key: content_of(key) for key in KEYS if key.startswith(LOOSE)}
    headers = (("Content-Type", "binary/octet-stream"),)
    of_loose, index_of_loose = shard_and_index(loose, shard_key="shards/0.tar", prefix=LOOSE, headers=headers)
    packs = {ARCHIVE: shard, SHARD: shard, INDEX: index, "shards/0.tar": of_loose, "shards/0.fbpack": index_of_loose}
    return {key: content_of(key) for key in KEYS if direct or key not in loose} | packs


class ArgumentGenerator:
    """Draws arguments."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._keys = list(KEYS)

    def _key(self, odd: float = 0.12) -> Any:
        draw = self._random
        return draw.choice(ODD_KEYS) if draw.random() < odd else draw.choice(self._keys)

    def _position(self, key: Any, *, none: bool = True) -> Any:
        size = KEYS.get(key, 50) if isinstance(key, str) else 50
        near = [0, 1, size // 2, size - 1, size, size + 1, size + 5000, -1, -size, -size - 1, 1 << 31, (1 << 63) - 1]
        far = [1 << 63, 1 << 64, 10**19 - 1, 10**25, 1.5, "3", True]
        picked = self._random.choice(near) if self._random.random() < 0.93 else self._random.choice(far)
        return None if none and self._random.random() < 0.2 else picked

    def _batch_key(self) -> Any:
        draw, key = self._random, self._key()
        kind = draw.random()
        if kind < 0.5:
            return key
        if kind < 0.6:
            member = draw.choice([*MEMBERS, "none", "", "m/\ud800", "a\0"])
            where = draw.choice((ARCHIVE, ARCHIVE, ARCHIVE, key))
            return BatchKey(where, draw.choice((0, 0, 5, 5000)), draw.choice((None, None, 3, 90, 10**6)), member)
        return BatchKey(key, self._position(key, none=False), self._position(key))

    def _buffer(self) -> tuple[str, Callable[[], Any]]:
        size = self._random.choice((0, 1, 10, 100, 4096, 16_384, 70_000, 300_001, 400_000))
        rows = memoryview(bytearray(24)).cast("B", (4, 6))
        makers: list[tuple[str, Callable[[], Any]]] = [
            (f"bytearray({size})", lambda: bytearray(b"\xaa" * size)),
            (f"bytearray({size})", lambda: bytearray(b"\xaa" * size)),
            (f"bytearray({size})[7:]", lambda: memoryview(bytearray(b"\xaa" * size))[7:]),
            (f"array('i', {size // 4})", lambda: array.array("i", bytes(size // 4 * 4))),
            ("bytes", lambda: b"\xaa" * 10),
            ("rows", lambda: memoryview(bytearray(24)).cast("B", (4, 6))),
            ("rows[::2]", lambda: rows[::2]),
            ("bytearray[::2]", lambda: memoryview(bytearray(20))[::2]),
            ("released", _released),
            ("None", lambda: None),
        ]
        return makers[min(int(self._random.expovariate(0.4)), len(makers) - 1)]

    def _data(self) -> tuple[str, Callable[[], Any]]:
        draw = self._random
        content = draw.randbytes(draw.choice((0, 1, 100, 5000, 20_000, 70_000, 1_200_000)))
        makers: list[tuple[str, Callable[[], Any]]] = [
            (f"bytes({len(content)})", lambda: content),
            (f"bytes({len(content)})", lambda: content),
            (f"view({len(content)})", lambda: memoryview(bytearray(content))),
            ("array", lambda: array.array("d", [1.0, 2.0])),
            ("view[::2]", lambda: memoryview(bytes(20))[::2]),
            ("released", _released),
            ("text", lambda: "text"),
            ("file", lambda: io.BytesIO(content)),
            ("iterator", lambda: iter([b"a", b"b"])),
            ("generator that raises", _failing),
        ]
        return makers[min(int(draw.expovariate(0.5)), len(makers) - 1)]


def _released() -> memoryview:
    view = memoryview(bytearray(10))
    view.release()
    return view


def _failing() -> Iterator[bytes]:
    yield b"a"
    raise KeyError("no more")
