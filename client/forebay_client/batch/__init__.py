"""Many reads in one call."""
