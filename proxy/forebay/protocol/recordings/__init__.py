"""Recordings as bytes: what was read, in order, in a form that goes from one Forebay to another."""
