"""Data sets: statistics of the objects under one rule, and of their reads."""
