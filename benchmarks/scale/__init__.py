"""The page docs/benchmarks-scale.md: what a million blocks cost."""
