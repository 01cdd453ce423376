"""Peers: the other workers of the node, the owners of objects among them, and the calls to them by RPC."""
