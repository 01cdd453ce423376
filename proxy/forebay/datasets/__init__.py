"""Data sets: what is known, cached and read of the objects under one rule."""
