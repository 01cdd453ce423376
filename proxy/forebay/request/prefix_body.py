"""A body that is a prefix of keys, of the resources `.forebay/warm/` and `.forebay/flush/`.

A line end behind the prefix is none of it: `echo run-7/ | aws s3 cp - ...` sends one. With it a flush would find no
write, and report that all have arrived.
"""

import re
from collections.abc import AsyncIterator
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.core.names import MAX_KEY_BYTES

LARGEST: Final = MAX_KEY_BYTES + len("\r\n")
"""Bytes of a body."""
_LINE_END: Final = re.compile(rb"\r?\n\Z")


async def read_prefix(body: AsyncIterator[Piece]) -> str:
    """Returns the prefix. Raises S3Error."""
    content = bytearray()
    async for piece in body:
        content += piece
        if len(content) > LARGEST:
            break
    prefix = _LINE_END.sub(b"", content)
    if len(prefix) > MAX_KEY_BYTES:
        raise S3Error("InvalidArgument", f"A prefix has at most {MAX_KEY_BYTES} bytes.")
    try:
        return prefix.decode()
    except UnicodeDecodeError:
        raise S3Error("InvalidArgument", "The body is a prefix of keys, in UTF-8.") from None
