"""Namespaces: the keys of a bucket or of a prefix, listed once, kept on disk, and listed from there."""
