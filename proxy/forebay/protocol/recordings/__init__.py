"""Recordings as bytes: reads in order, in a format that can be moved from one Forebay to another."""
