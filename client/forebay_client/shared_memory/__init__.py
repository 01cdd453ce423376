"""Reads past HTTP, beside Forebay on one machine: the Unix socket, and memory shared with it."""
