"""The state of one job: its order, its objects, its progress, and its record on the disk."""
