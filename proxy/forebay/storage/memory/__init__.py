"""The memory tier: blocks and heads of one process. See memory_tier.py."""
