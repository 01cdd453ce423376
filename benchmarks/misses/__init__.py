"""The page docs/benchmarks-misses.md: small objects that nobody has asked for before; and slow readers of cold ones."""
