"""Recordings of what was read: made, kept, recognised, replayed."""
