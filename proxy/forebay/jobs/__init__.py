"""Jobs: work that no client waits for. Each kind has a folder of its own; the pins of a node stand beside them."""
