"""Scripts of clients, each run by the Python that has its client: they import nothing of the benchmarks."""
