"""Fetching: blocks on their way from the origin, one flight per block for any number of readers."""
