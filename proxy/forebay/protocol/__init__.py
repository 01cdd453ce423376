"""Floor 1: what the bytes on the wire mean. Sans-IO: no socket, no loop, no clock."""
