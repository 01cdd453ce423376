"""Floor 0: the words everything else is said in. Standard library only."""
