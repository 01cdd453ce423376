"""Prefetching: bytes that are about to be read, fetched beside demand into a budget of their own."""
