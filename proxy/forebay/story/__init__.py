"""Floor 5: the way of a request, in named steps."""
