"""The files that a command reads and writes. One that can't be read or written raises UsageError.

A list of objects (`forebay warm --keys`, `--manifest`) is sent as it is, unpacked if it is a gzip file. The server
reads it, and names the line of what it can't understand; docs/cli/filling.md describes the formats.
"""

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

from forebay_client.cli.command_context import CommandContext, UsageError

PIECE_BYTES = 1 << 18
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_GZIP_MAGIC = b"\x1f\x8b"


class KeyFile(NamedTuple):
    """A list of objects. `name`: of a file; "-" is standard input."""

    name: str
    list_format: str


class _ByteFile(Protocol):
    def read(self, size: int, /) -> bytes: ...


def key_file(name: str, list_format: str | None) -> KeyFile:
    """The file, in the format that its name says, unless another is named."""
    bare = name.lower().removesuffix(".gz")
    return KeyFile(name, list_format or _SUFFIXES.get(Path(bare).suffix, "keys"))


def read_pieces(context: CommandContext, name: str) -> Iterator[bytes]:
    """The bytes of a file, unpacked if it is a gzip file. The first of them are read at once, so that no request begins
    for a file that can't be read. Raises UsageError, then and later."""
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
        raise unreadable(name, error) from error


def _pieces(file: _ByteFile) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def _encoded(context: CommandContext) -> Iterator[bytes]:
    while text := context.stdin.read(PIECE_BYTES):
        yield text.encode()


def read_file(name: str) -> bytes:
    """The content of a file."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise unreadable(name, error) from error


def write_file(name: str, pieces: Iterable[bytes]) -> None:
    """Writes a file whole and durably, or leaves what was there."""
    path = Path(name)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise unwritable(name, error) from error
    finally:
        new.unlink(missing_ok=True)


def unreadable(name: str, error: Exception) -> UsageError:
    """The error of a file that can't be read."""
    return UsageError(f"{name} can't be read: {getattr(error, 'strerror', None) or error}.")


def unwritable(name: str, error: OSError) -> UsageError:
    """The error of a file that can't be written."""
    return UsageError(f"{name} can't be written: {error.strerror}.")
