"""Batches: what a client sends to read many objects at once, and the TAR that answers it."""
