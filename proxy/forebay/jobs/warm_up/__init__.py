"""Warm-up jobs: the queue of jobs, one run from its listing to its end, and warm-ups as objects of the data port."""
