"""Processes: modules, foreign programs and clients' scripts, and the cores on which they run."""
