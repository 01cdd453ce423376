"""The index of the SSD tier, in LMDB: where each block is, and the heads. Its check, its rebuild and its repair."""
