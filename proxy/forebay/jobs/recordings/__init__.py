"""Recordings of reads: made, kept, recognised, replayed."""
