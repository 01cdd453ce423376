"""Buffers: bytes that rooms pass on without a copy."""

from typing import TypeAlias

Buffer = memoryview
"""Read-only bytes. A view, so that a slice is no copy."""

Piece: TypeAlias = bytes | memoryview
"""Bytes of a body. They do not change any more."""


def unpinned(buffer: Buffer) -> Buffer:
    """Returns the buffer, or a copy if it pins much more memory than it shows."""
    try:
        whole = len(buffer.obj)  # type: ignore[arg-type]  # every exporter we meet has a length; others are copied
    except TypeError:
        whole = -1
    if not len(buffer) <= whole <= len(buffer) + len(buffer) // 8 + 64:
        return memoryview(bytes(buffer))
    return buffer.toreadonly()
