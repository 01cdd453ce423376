"""Bytes that are handed from room to room without a copy."""

from typing import TypeAlias

Buffer = memoryview
"""Read-only bytes. A view, so that a slice is no copy."""

Piece: TypeAlias = bytes | memoryview
"""A run of body bytes, which nobody changes afterwards."""
