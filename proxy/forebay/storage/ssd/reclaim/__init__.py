"""Reclaim: which segments of the SSD tier go, and which blocks of them stay, by pool and by pin."""
