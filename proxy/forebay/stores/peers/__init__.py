"""The other workers of the node, as a place to get things from: frames, documents, connections."""
