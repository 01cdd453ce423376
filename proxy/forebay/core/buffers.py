"""Bytes that are handed from room to room without a copy."""

Buffer = memoryview
"""Read-only bytes. A view, so that a slice is no copy."""
