"""Decisions as pure functions: rules, access, freshness, coalescing, windows. Time is an argument."""
