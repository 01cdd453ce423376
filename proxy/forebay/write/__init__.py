"""Writes: forwarded to the origin between two invalidations."""
