"""Floor 4: fetches in progress. One flight a block, however many wait for it."""
