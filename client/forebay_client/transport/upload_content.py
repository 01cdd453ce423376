"""The body of an upload: bytes in memory, or a part of a file. It can be read as often as an attempt needs it."""

import errno
import os
import stat
import zlib
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from forebay_client.transport.object_request import FilePart, UploadContent

PIECE: Final = 1 << 20
"""Bytes that are read from a file at once."""


def size_of_file(path: Path) -> int:
    """Bytes of a file. Raises OSError, also for a pipe or a device, which has content of another size than it says."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return found.st_size


def length_of(content: UploadContent) -> int:
    """Bytes of the body."""
    return content.length if isinstance(content, FilePart) else len(content)


def pieces_of(content: UploadContent) -> Iterator[bytes | memoryview]:
    """The body, from its beginning. Raises OSError, and ValueError where the file has become shorter."""
    if not isinstance(content, FilePart):
        if len(content):
            yield content
        return
    left = content.length
    with content.path.open("rb", buffering=0) as file:
        file.seek(content.start)
        while left:
            piece = file.read(min(left, PIECE))
            if not piece:
                raise ValueError(f"{content.path} has become shorter while it was uploaded")
            left -= len(piece)
            yield piece


def crc32_header(content: UploadContent) -> str:
    """The value of x-amz-checksum-crc32."""
    value = 0
    for piece in pieces_of(content):
        value = zlib.crc32(piece, value)
    return b64encode(value.to_bytes(4, "big")).decode()


def sha256_hex(content: UploadContent) -> str:
    """The value of x-amz-content-sha256."""
    digest = sha256()
    for piece in pieces_of(content):
        digest.update(piece)
    return digest.hexdigest()
