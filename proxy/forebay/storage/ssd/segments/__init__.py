"""The segments of the SSD tier: records of blocks in files that are appended to and deleted whole."""
