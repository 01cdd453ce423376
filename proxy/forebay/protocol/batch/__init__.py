"""Batches: the request to read many objects at once, and the TAR that answers it."""
