"""Forebay: a caching proxy for object storage that runs beside the compute.

A folder is a room, and imports go downward only, in the order of the first contract of import-linter in pyproject.toml.
docs/architecture.md says what each room has, and follows a request through them.
"""
