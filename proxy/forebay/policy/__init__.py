"""Decisions as pure functions: rules, access, freshness, pools and pins, order of fetches and writes. Time is an
argument."""
