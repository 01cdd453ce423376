"""Packs: many small objects as members of a few TAR objects, and an index of them. docs/packs.md has the format."""
