"""The memory tier: blocks and heads of one process."""
