"""Decisions as pure functions: rules, access, freshness, pools and pins, what is fetched or written next. Time is an
argument."""
