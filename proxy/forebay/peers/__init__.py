"""The other workers of the node: who owns an object, and the RPC to its owner."""
