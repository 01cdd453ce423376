"""The page docs/benchmarks-epochs.md: what eviction, plans, recordings and listings are worth to a training job."""
