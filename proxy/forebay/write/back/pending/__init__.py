"""Pending writes, uploads and parts: accepted, not settled yet, and known to every worker."""
