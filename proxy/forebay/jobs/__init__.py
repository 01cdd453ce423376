"""Background jobs: warm-up."""
