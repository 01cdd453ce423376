"""The journal: writes that were acknowledged on this node and are on their way to the origin.

It is no tier: a tier may lose anything at any time, the journal nothing. docs/on-disk-format.md draws the files.
"""
