"""Several workers on one node: the supervisor and the processes that it keeps running."""
