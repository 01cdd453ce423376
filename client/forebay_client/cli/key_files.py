"""Files with lists of objects for `forebay warm`: which format a file has, and its bytes, unpacked if need be.

The server reads the lists, and names the line of what it can't understand; docs/cli.md describes the formats.
"""

import gzip
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

from forebay_client.cli.command_context import CommandContext

PIECE_BYTES = 1 << 18
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_GZIP_MAGIC = b"\x1f\x8b"


class KeyFile(NamedTuple):
    """A list of objects. `name`: of a file; "-" is standard input."""

    name: str
    list_format: str


class _ByteFile(Protocol):
    def read(self, size: int, /) -> bytes: ...


class UnreadableFile(Exception):
    """A file can't be read; the message is a sentence."""


def key_file(name: str, list_format: str | None) -> KeyFile:
    """The file, in the format that its name says, unless another is named."""
    bare = name.lower().removesuffix(".gz")
    return KeyFile(name, list_format or _SUFFIXES.get(Path(bare).suffix, "keys"))


def read_pieces(context: CommandContext, name: str) -> Iterator[bytes]:
    """The bytes of a file, unpacked if it is a gzip file. The first of them are read at once, so that no request begins
    for a file that can't be read. Raises UnreadableFile, then and later."""
    pieces = _read(context, name)
    return chain([next(pieces, b"")], pieces)


def _read(context: CommandContext, name: str) -> Iterator[bytes]:
    try:
        if name == "-":
            # A terminal's or a pipe's text has bytes below; a test's has none.
            yield from _pieces(context.stdin.buffer) if hasattr(context.stdin, "buffer") else _encoded(context)
            return
        with Path(name).open("rb") as file:
            packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            file.seek(0)
            with gzip.open(file) if packed else file as plain:
                yield from _pieces(plain)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableFile(f"{name} can't be read: {reason}.") from error


def _pieces(file: _ByteFile) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def _encoded(context: CommandContext) -> Iterator[bytes]:
    while text := context.stdin.read(PIECE_BYTES):
        yield text.encode()
