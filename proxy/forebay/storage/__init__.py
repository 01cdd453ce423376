"""Storage: where bytes are kept on this node. The tiers (memory, SSD), the journal, the spool.

They share the allocator of buffers, the page cache, and the files that prove after a restart which content of a
directory may be trusted.
"""
