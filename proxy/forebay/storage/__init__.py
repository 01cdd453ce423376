"""Where bytes are kept: the memory tier, the SSD tier, the spool."""
