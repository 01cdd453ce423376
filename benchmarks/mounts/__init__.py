"""The page docs/benchmarks-mounts.md: epochs and loads of checkpoints over mounts."""
