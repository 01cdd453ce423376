"""Batches: many reads answered by one response."""
