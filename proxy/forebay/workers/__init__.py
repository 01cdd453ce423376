"""Several workers on one node: the supervisor, and the worker processes that it keeps running."""
