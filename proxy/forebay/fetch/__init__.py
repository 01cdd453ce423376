"""Blocks on their way from the origin: one flight a block, however many readers wait for it."""
