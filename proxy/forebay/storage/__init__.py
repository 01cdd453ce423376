"""Where bytes are kept: the memory tier, the SSD tier, the buffer budget, the spool."""
