"""The page docs/benchmarks.md: hits, misses and writes of the cache, beside nginx and Varnish."""
