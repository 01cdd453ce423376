"""The page docs/benchmarks-training.md: epochs of a PyTorch DataLoader."""
