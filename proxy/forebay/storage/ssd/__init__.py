"""The SSD tier: blocks and heads in a directory, of any number of bytes, found again after a restart. See
ssd_tier.py."""
