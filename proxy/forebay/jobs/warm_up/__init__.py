"""Warm-ups: the queue of jobs, one run from its listing to its end, one object here or at its owner, head hints."""
