"""The page docs/benchmarks-clients.md: what a read of a cached object costs, by client library and transport."""
