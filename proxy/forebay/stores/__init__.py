"""Floor 3: where bytes are. The tiers (memory, ssd) and the origin stand side by side and do not know each other."""
