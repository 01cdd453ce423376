"""The page docs/benchmarks-checkpoints.md: writes that a journal acknowledges, and what their drain costs others."""
