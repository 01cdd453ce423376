"""Storage: where bytes are kept on this node. The tiers (memory, SSD), the journal, the spool.

Beside them what they share: the allocator of buffers, the page cache, and the files that say what of a directory may be
trusted after a restart.
"""
